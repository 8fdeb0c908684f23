-- The secrets that have signed tokens of this ledger, by the start of their hashes, which stands in each token. A copy
-- that is restored has lost sign-outs, so it needs a secret that is not here.
CREATE TABLE token_keys (
    key_id CHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    first_used_at DATETIME(6) NOT NULL,
    PRIMARY KEY (key_id)
) ENGINE = InnoDB;
