-- Buyers who hold units again and again and do not pay.

-- After how many holds that expired unpaid a buyer may not hold a unit of the item again; 0: no limit, as for all items
-- of before.
ALTER TABLE items ADD COLUMN unpaid_max INT UNSIGNED NOT NULL DEFAULT 0;

ALTER TABLE buyer_limits
    -- Holds of this buyer that expired unpaid.
    ADD COLUMN expired INT NOT NULL DEFAULT 0,
    -- The item's limit of such holds when the buyer last ordered; 0 for an accepted offer. No CHECK of its own: that would
    -- copy the table, and purchases would wait. An order that is over this limit is refused by `buyer_limits_within`.
    ADD COLUMN unpaid_max INT NOT NULL DEFAULT 0;
