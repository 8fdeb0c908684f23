-- Signing out everywhere, and what the schema needs of a program.

CREATE TABLE session_generations (
    user_id BIGINT NOT NULL,
    -- A token carries the generation of its user at the sign-in; a later generation ends it.
    generation INT UNSIGNED NOT NULL,
    -- When the last generation began, by the database's clock: instances ask for what is new.
    ended_at DATETIME(6) NOT NULL,
    PRIMARY KEY (user_id),
    KEY session_generations_ended_at (ended_at)
) ENGINE = InnoDB;

-- One row. A migration that takes away what an earlier build needs raises the number, so that the
-- earlier build refuses to serve; a migration that only adds leaves it.
CREATE TABLE schema_needs (
    id TINYINT UNSIGNED NOT NULL,
    -- The newest migration that a program must know to use this schema.
    known_version_min BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

INSERT INTO schema_needs (id, known_version_min) VALUES (1, 1);
