-- Draws whose value nobody makes: the shop signs the list and the promises of entries, and has no secret of its own.

ALTER TABLE draws
    -- Draws of earlier builds alone have them.
    MODIFY COLUMN seed CHAR(64) CHARACTER SET ascii NULL,
    MODIFY COLUMN commitment CHAR(64) CHARACTER SET ascii NULL,
    -- The public part of the shop's key, as the rules name it; NULL for a draw of an earlier build, which proves nothing.
    ADD COLUMN shop_key CHAR(64) CHARACTER SET ascii NULL,
    -- The head of the list with its signature, byte by byte as it is published.
    ADD COLUMN head VARCHAR(500) CHARACTER SET ascii NULL,
    -- Since when the sale is paused: open offers run on from the end of the pause.
    ADD COLUMN paused_at DATETIME(6) NULL;
