-- What further strategies decide by.

-- When the row was last written, in whole seconds as a textbook's DATETIME keeps it: for the
-- strategy that compares timestamps, and shows that two writes in one second look the same.
ALTER TABLE stock
    ADD COLUMN changed_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;

-- Which load of an item's buckets in Redis is the current one; as `redis_counters`, for the
-- counter that is split over several keys.
CREATE TABLE redis_buckets (
    item_id BIGINT NOT NULL,
    -- Rises with each load, so that an older one can be told.
    epoch BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (item_id)
) ENGINE = InnoDB;
