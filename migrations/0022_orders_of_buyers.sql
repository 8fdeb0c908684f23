-- The list of a buyer's orders without an index as large as the table that each order changes somewhere
-- else. The indexes of this column, and the unique one that begins with the item, are made by
-- `crates/ledger/src/rows/order_indexes.rs`, because on a large table that takes minutes and may be broken off.

-- Orders of items with neighbouring ids have one number. 0: written before this column.
ALTER TABLE orders ADD COLUMN buyer_bucket INT UNSIGNED NOT NULL DEFAULT 0;
