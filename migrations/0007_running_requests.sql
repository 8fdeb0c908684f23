-- What an instance has to know before it refuses a request for good.

-- Requests that an instance still works on: those that take long, and those whose client went away.
-- The instance deletes its rows when they end; what a dead one leaves expires.
CREATE TABLE running_requests (
    user_id BIGINT NOT NULL,
    item_id BIGINT NOT NULL,
    -- The caller's Idempotency-Key.
    request_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Which instance works on it; several may.
    instance CHAR(16) CHARACTER SET ascii NOT NULL,
    -- Until when the row is good, by the database's clock.
    expires_at DATETIME(6) NOT NULL,
    PRIMARY KEY (user_id, item_id, request_key, instance),
    KEY running_requests_expires_at (expires_at)
) ENGINE = InnoDB;

-- Since when an item's queue is on the list, by the database's clock (sessions are in UTC): nothing is
-- put into it before every instance has read the list again.
ALTER TABLE redis_queues ADD COLUMN opened_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6);
