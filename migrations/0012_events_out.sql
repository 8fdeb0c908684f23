-- Changes of orders on their way to other systems.

-- Written by the transaction that changes the orders: one row a transaction, with all orders that it
-- changes. The columns are those that the outbox event router of Debezium reads. The service takes
-- the rows out again when it puts them into the log below; nothing is ever updated.
CREATE TABLE outbox (
    -- The order of the rows. Numbers may be missing, and a smaller one may be committed later.
    seq BIGINT NOT NULL AUTO_INCREMENT,
    -- A UUIDv7: the id of the event, to drop doubles by.
    id CHAR(36) CHARACTER SET ascii NOT NULL,
    -- Always `orders`.
    aggregatetype VARCHAR(32) CHARACTER SET ascii NOT NULL,
    -- Always `ledger`: all changes have one key, so that a stream that is split by key keeps their order.
    aggregateid VARCHAR(64) CHARACTER SET ascii NOT NULL,
    -- Always `orders.changed`.
    type VARCHAR(32) CHARACTER SET ascii NOT NULL,
    -- The changed orders, as JSON.
    payload LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (seq)
) ENGINE = InnoDB;

-- The events in their final order, kept for a while so that they can be delivered again.
CREATE TABLE event_log (
    -- 1, 2, 3 and so on, without gaps. A larger position is never committed before a smaller one.
    position BIGINT NOT NULL,
    outbox_seq BIGINT NOT NULL,
    id CHAR(36) CHARACTER SET ascii NOT NULL,
    type VARCHAR(32) CHARACTER SET ascii NOT NULL,
    payload LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (position),
    -- How old events are found.
    KEY event_log_created_at (created_at)
) ENGINE = InnoDB;

-- One row: the last position of the log. The instance that locks it moves rows out of the outbox.
CREATE TABLE event_relay (
    id TINYINT NOT NULL,
    last_position BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;
INSERT INTO event_relay (id, last_position) VALUES (1, 0);

-- Where events go.
CREATE TABLE event_endpoints (
    id BIGINT NOT NULL AUTO_INCREMENT,
    -- webhook or redis-stream.
    kind VARCHAR(16) CHARACTER SET ascii NOT NULL,
    -- The address of a webhook; the key of a stream, without the prefix.
    target VARCHAR(500) CHARACTER SET ascii NOT NULL,
    -- Signs webhooks; empty for a stream.
    secret VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    enabled BOOLEAN NOT NULL DEFAULT TRUE,
    -- The last position that was delivered or set aside.
    delivered BIGINT NOT NULL,
    -- Failed tries since the last success; the pause before the next try grows with it.
    failures INT UNSIGNED NOT NULL DEFAULT 0,
    -- Those of them in which the receiver refused the next event.
    refusals INT UNSIGNED NOT NULL DEFAULT 0,
    last_error VARCHAR(300) CHARACTER SET utf8mb4 NULL,
    -- Times by the database's clock.
    next_try_at DATETIME(6) NOT NULL,
    delivered_at DATETIME(6) NULL,
    -- The instance that delivers at the moment, and until when no other one does.
    claimed_by CHAR(16) CHARACTER SET ascii NOT NULL DEFAULT '',
    claimed_until DATETIME(6) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

-- Events that a receiver refused too often: set aside, so that the others go on.
CREATE TABLE event_dead_letters (
    endpoint_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    reason VARCHAR(300) CHARACTER SET utf8mb4 NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (endpoint_id, position),
    KEY event_dead_letters_position (position)
) ENGINE = InnoDB;

-- Ranges of the log that an operator wants delivered again.
CREATE TABLE event_replays (
    id BIGINT NOT NULL AUTO_INCREMENT,
    endpoint_id BIGINT NOT NULL,
    next_position BIGINT NOT NULL,
    last_position BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY event_replays_endpoint (endpoint_id)
) ENGINE = InnoDB;
