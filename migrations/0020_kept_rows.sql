-- The rows of an item that has moved away, as they were at the flip: for a target that loses it.
CREATE TABLE kept_rows (
    id BIGINT NOT NULL AUTO_INCREMENT,
    item_id BIGINT NOT NULL,
    -- The epoch of the move.
    epoch BIGINT UNSIGNED NOT NULL,
    table_name VARCHAR(64) CHARACTER SET ascii NOT NULL,
    -- A JSON object: the text of each column.
    content LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
    kept_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY kept_rows_item (item_id, epoch),
    KEY kept_rows_kept_at (kept_at)
) ENGINE = InnoDB;
