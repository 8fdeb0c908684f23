-- The order in which writes under fences were accepted: so the audit sees one that came too late.

-- How many writes were accepted under this counter; raised together with the fence.
ALTER TABLE fences ADD COLUMN accepted_writes BIGINT UNSIGNED NOT NULL DEFAULT 0;

-- The counter that the fence comes from, and the number of the write among those that were accepted
-- under it: all orders of a batch are one write. The sequence is 0 in the rows that are older than this
-- column, and NULL where nothing was compared: without a fence, or with the arbiter off.
ALTER TABLE orders
    ADD COLUMN fence_backend VARCHAR(32) CHARACTER SET ascii NULL,
    ADD COLUMN fence_sequence BIGINT UNSIGNED NULL DEFAULT 0;
ALTER TABLE orders ALTER COLUMN fence_sequence SET DEFAULT NULL;
