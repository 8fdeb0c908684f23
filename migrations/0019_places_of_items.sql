-- Places in waiting lists are numbered by each ledger, so that two items that came from different
-- ledgers may have places of the same number. A place is found by its item and its number.
ALTER TABLE waiting_list
    DROP PRIMARY KEY,
    ADD PRIMARY KEY (item_id, place),
    ADD KEY waiting_list_place (place);
