-- Users whom an identity provider knows. Each has a row in `users`, too: its password hash is empty,
-- and its folded name begins with `oidc:`, which no name that a person types has.

CREATE TABLE subjects (
    -- SHA-256 of issuer, a zero byte, and subject.
    subject_hash BINARY(32) NOT NULL,
    -- Handed out once: orders name it.
    user_id BIGINT NOT NULL,
    -- Who said it, and how the provider calls the user.
    issuer VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    subject VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (subject_hash),
    UNIQUE KEY subjects_user (user_id)
) ENGINE = InnoDB;
