-- Other shops, whose programs order for guests, and these guests. A shop has a number of its own and is no user: what ends
-- the sessions of a user ends no token of a shop.
CREATE TABLE shops (
    -- Made by the service.
    id BIGINT NOT NULL,
    name VARCHAR(64) CHARACTER SET ascii NOT NULL,
    -- A token of an earlier generation is refused.
    generation INT UNSIGNED NOT NULL DEFAULT 0,
    created_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NULL,
    PRIMARY KEY (id),
    -- Also a shop that has ended keeps its name.
    UNIQUE KEY shops_name (name)
) ENGINE = InnoDB;

-- Which reference of a shop is which buyer. Two references are never one buyer.
CREATE TABLE guests (
    shop_id BIGINT NOT NULL,
    reference VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- A random number that no account has.
    user_id BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (shop_id, reference),
    UNIQUE KEY guests_user_id (user_id),
    CONSTRAINT guests_shop FOREIGN KEY (shop_id) REFERENCES shops (id)
) ENGINE = InnoDB;
