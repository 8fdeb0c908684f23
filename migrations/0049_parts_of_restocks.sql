-- A large restock reaches a long waiting list in parts: the units of it that are not in the stock yet.
ALTER TABLE restocks
    ADD COLUMN waiting BIGINT NOT NULL DEFAULT 0,
    ADD KEY restocks_waiting (waiting);

-- Units at the start: with the restocks they are the total. NULL: an earlier build has made the item.
ALTER TABLE items ADD COLUMN first_stock BIGINT NULL;
