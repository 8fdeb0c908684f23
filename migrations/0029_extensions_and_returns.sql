-- Holds that buyers extend, and paid orders that they give back.

ALTER TABLE items
    -- By how many seconds at most a buyer may extend the hold of an unpaid order, once; 0: not at all.
    ADD COLUMN extend_seconds INT UNSIGNED NOT NULL DEFAULT 120,
    -- For how many seconds after the payment a buyer may give the order back; 0: not at all.
    ADD COLUMN return_seconds INT UNSIGNED NOT NULL DEFAULT 0;

-- By how many seconds the hold was extended; NULL: it was not. The same in all lines of an order.
ALTER TABLE orders ADD COLUMN extended_seconds INT UNSIGNED NULL;
