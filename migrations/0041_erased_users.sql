-- People whose accounts were deleted.

CREATE TABLE erased_users (
    -- The number under which orders, limits and sums still count.
    user_id BIGINT NOT NULL,
    -- HMAC of issuer and subject under a key of the service's secret, while a sale runs that counts the person: the same
    -- person of the identity provider gets the same number again. NULL: had a password, or no such sale runs.
    subject_hash BINARY(32) NULL,
    -- Times by the database's clock.
    erased_at DATETIME(6) NOT NULL,
    -- When the row is looked at again.
    due_at DATETIME(6) NOT NULL,
    PRIMARY KEY (user_id),
    UNIQUE KEY erased_users_subject (subject_hash),
    KEY erased_users_due (due_at)
) ENGINE = InnoDB;
