-- Requests with an Idempotency-Key that have created items: a repetition is answered with the same items. A row is
-- written in the transaction that creates them, and kept as long as items are: for ever.
CREATE TABLE item_creations (
    -- The operator.
    user_id BIGINT NOT NULL,
    request_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- SHA-256 of the body: the same key with another body is refused.
    digest BINARY(32) NOT NULL,
    -- The items in the order of the request: numbers with a comma between them.
    item_ids VARCHAR(10000) CHARACTER SET ascii NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (user_id, request_key)
) ENGINE = InnoDB;
