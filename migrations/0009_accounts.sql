-- Names that look alike are one name, and failed sign-ins are counted by all instances together.

ALTER TABLE users
    -- What all names that look like this one have in common (UTS 39). NULL in a row from before this
    -- column: `seckill migrate` fills it in, and leaves it out where an older account has it.
    ADD COLUMN username_skeleton VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    ADD UNIQUE KEY users_skeleton (username_skeleton);

CREATE TABLE sign_in_failures (
    -- A hash of the folded name: people type passwords into the wrong field.
    account CHAR(43) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Where the tries came from (IPv6: one /64); empty: from all addresses together.
    address VARCHAR(45) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Tries since then that were not followed by the right password.
    failures INT UNSIGNED NOT NULL,
    -- When the first of them was, by the database's clock.
    since DATETIME(6) NOT NULL,
    PRIMARY KEY (account, address)
) ENGINE = InnoDB;
