-- The ledger: what is on sale, what is left, who bought, and every movement of stock.
--
-- Runs on MariaDB >= 10.6 and MySQL >= 8.0. One shard sells one item, so no statement joins two
-- items and no table has a foreign key to another: a token is all a buyer needs, and the audit,
-- not a constraint check on the hot path, proves that nothing dangles.
-- All times are UTC with microseconds. Words and ids are ascii; what a caller chooses (request
-- keys) is compared byte by byte.

CREATE TABLE users (
    -- Handed out here: users are made one by one, never on the purchase path.
    id BIGINT NOT NULL AUTO_INCREMENT,
    -- As the user typed it, to show.
    username VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL,
    -- NFKC-folded lower case: what must be unique, so that look-alikes cannot be taken.
    username_folded VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- Argon2id in PHC form: algorithm, costs and salt stand in it.
    password_hash VARCHAR(255) CHARACTER SET ascii NOT NULL,
    -- buyer or admin.
    role VARCHAR(16) CHARACTER SET ascii NOT NULL DEFAULT 'buyer',
    -- An account whose password everybody knows: only `seckill dev` lets it sign in.
    demo BOOLEAN NOT NULL DEFAULT FALSE,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY users_username (username_folded)
) ENGINE = InnoDB;

CREATE TABLE revoked_sessions (
    -- The random id inside a token that was signed out before it expired.
    token_id CHAR(22) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- When it was revoked, by the database's clock: instances ask for what is new.
    revoked_at DATETIME(6) NOT NULL,
    -- When the token would have expired anyway: the row can go then.
    expires_at DATETIME(6) NOT NULL,
    PRIMARY KEY (token_id),
    KEY revoked_sessions_revoked_at (revoked_at)
) ENGINE = InnoDB;

CREATE TABLE items (
    id BIGINT NOT NULL AUTO_INCREMENT,
    name VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL,
    description VARCHAR(4000) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
    image_url VARCHAR(500) CHARACTER SET utf8mb4 NULL,
    -- Integer cents; the price of an order is copied from here, never from a request.
    price_cents BIGINT NOT NULL,
    starts_at DATETIME(6) NOT NULL,
    ends_at DATETIME(6) NOT NULL,
    -- Units that one buyer may hold or have bought.
    per_buyer_limit INT UNSIGNED NOT NULL,
    -- How long an unpaid order keeps its stock.
    hold_seconds INT UNSIGNED NOT NULL,
    -- What the strategy name `default` stands for.
    strategy VARCHAR(64) CHARACTER SET ascii NOT NULL,
    -- shop: a real sale. lab: a throw-away item.
    kind VARCHAR(8) CHARACTER SET ascii NOT NULL,
    -- on, or off for lab items that let the gate stand alone.
    arbiter VARCHAR(8) CHARACTER SET ascii NOT NULL,
    -- The operator's stop button.
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    -- Counts edits: the entity tag for If-Match.
    revision BIGINT UNSIGNED NOT NULL DEFAULT 1,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    -- The shop's list: real sales by their end.
    KEY items_kind_ends_at (kind, ends_at),
    CHECK (price_cents >= 0),
    CHECK (starts_at < ends_at),
    -- A real sale always has its second line of defence.
    CHECK (kind = 'lab' OR arbiter = 'on')
) ENGINE = InnoDB;

-- The hot row, apart from `items` so that reading a description never waits for a sale.
CREATE TABLE stock (
    item_id BIGINT NOT NULL,
    -- Units at the start plus restocks; known from input, never rebuilt from what is left.
    total BIGINT NOT NULL,
    -- Units left. Signed, so that the lab can show what an unguarded write does.
    available BIGINT NOT NULL,
    -- Counts the accepted changes: what compare-and-set strategies compare.
    version BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (item_id)
) ENGINE = InnoDB;

CREATE TABLE orders (
    -- A UUIDv7 in text: needs no coordination, cannot be guessed, inserts in time order, and
    -- reads the same in SQL, in JSON and in a log.
    id CHAR(36) CHARACTER SET ascii NOT NULL,
    item_id BIGINT NOT NULL,
    -- No foreign key: no account is looked up on the purchase path.
    user_id BIGINT NOT NULL,
    quantity INT UNSIGNED NOT NULL,
    -- Price times quantity at the time of the order.
    amount_cents BIGINT NOT NULL,
    -- queued, pending, paid, cancelled, expired, rejected.
    status VARCHAR(10) CHARACTER SET ascii NOT NULL,
    -- The strategy that let it through.
    strategy VARCHAR(64) CHARACTER SET ascii NOT NULL,
    -- The token of the lock under which it was written.
    fence BIGINT UNSIGNED NULL,
    -- The caller's Idempotency-Key, or the order's own id where there was none.
    request_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    created_at DATETIME(6) NOT NULL,
    -- When the hold runs out.
    expires_at DATETIME(6) NOT NULL,
    paid_at DATETIME(6) NULL,
    PRIMARY KEY (id),
    -- A retry is the same order, for as long as the order exists; also "my orders" by buyer.
    UNIQUE KEY orders_request (user_id, item_id, request_key),
    -- The expiry sweep and the audit of one item.
    KEY orders_item_status (item_id, status, expires_at)
) ENGINE = InnoDB;

CREATE TABLE buyer_limits (
    item_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    -- Units of this buyer's orders that hold stock.
    bought INT NOT NULL,
    -- The item's limit when the buyer last bought.
    allowed INT NOT NULL,
    PRIMARY KEY (item_id, user_id),
    -- The database itself refuses the unit too many.
    CONSTRAINT buyer_limits_within CHECK (bought <= allowed),
    CONSTRAINT buyer_limits_positive CHECK (bought >= 0)
) ENGINE = InnoDB;

-- Append-only. The key makes each reason happen at most once per order.
CREATE TABLE stock_movements (
    item_id BIGINT NOT NULL,
    order_id CHAR(36) CHARACTER SET ascii NOT NULL,
    -- sold, cancelled, expired, late_payment.
    reason VARCHAR(16) CHARACTER SET ascii NOT NULL,
    -- Units: negative when stock was taken.
    delta BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (item_id, order_id, reason)
) ENGINE = InnoDB;

-- Append-only: each change of an item's total, since it is not a movement of an order.
CREATE TABLE restocks (
    id CHAR(36) CHARACTER SET ascii NOT NULL,
    item_id BIGINT NOT NULL,
    -- Units: negative when the operator took stock out of the sale.
    delta BIGINT NOT NULL,
    -- The operator.
    user_id BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY restocks_item (item_id)
) ENGINE = InnoDB;

-- The highest fencing token that was accepted, per item and lock backend: tokens of different
-- backends come from different counters and cannot be compared.
CREATE TABLE fences (
    item_id BIGINT NOT NULL,
    backend VARCHAR(32) CHARACTER SET ascii NOT NULL,
    fence BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (item_id, backend)
) ENGINE = InnoDB;

-- Which load of an item's Redis counter is the current one. An emptied Redis has no epoch and an
-- older copy of it has a lower one: both are noticed, and the counter is loaded again from `stock`.
CREATE TABLE redis_counters (
    item_id BIGINT NOT NULL,
    -- Rises with each load, so that an older one can be told.
    epoch BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (item_id)
) ENGINE = InnoDB;
