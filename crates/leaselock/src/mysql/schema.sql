-- The table of the lock `table` on MySQL and MariaDB: a row per name.

CREATE TABLE locks (
    -- Compared byte by byte: names that differ in case are different locks.
    name VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- The random token of one hold; empty when the name is free.
    owner VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Rises with every holder; starts from the clock in microseconds.
    fence BIGINT UNSIGNED NOT NULL,
    -- By the server's clock, UTC.
    leased_until DATETIME(6) NOT NULL,
    PRIMARY KEY (name),
    -- The sweep of names that are no longer used.
    KEY locks_leased_until (leased_until),
    -- Above it, programs that count in floating point would skip numbers.
    CONSTRAINT locks_fence_max CHECK (fence <= 9007199254740991)
) ENGINE = InnoDB;
