-- Openings of sales with a waiting room: who waits at the opening gets a place by a published shuffle.

-- Columns have the meaning that they have in `draws`. An opening that is moved before it comes has another row.
CREATE TABLE room_openings (
    item_id BIGINT NOT NULL,
    opens_at DATETIME(6) NOT NULL,
    seed CHAR(64) CHARACTER SET ascii NOT NULL,
    rules VARCHAR(1000) CHARACTER SET ascii NOT NULL,
    commitment CHAR(64) CHARACTER SET ascii NOT NULL,
    beacon VARCHAR(16) CHARACTER SET ascii NOT NULL,
    round BIGINT UNSIGNED NOT NULL,
    listed_at DATETIME(6) NULL,
    entries INT UNSIGNED NULL,
    root CHAR(64) CHARACTER SET ascii NULL,
    beacon_signature VARCHAR(200) CHARACTER SET ascii NULL,
    beacon_value CHAR(64) CHARACTER SET ascii NULL,
    PRIMARY KEY (item_id, opens_at)
) ENGINE = InnoDB;
