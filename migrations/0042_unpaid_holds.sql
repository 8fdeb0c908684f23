-- Buyers who hold units again and again and do not pay.

-- After how many holds that expired unpaid a buyer may not hold a unit of the item again; 0: no limit, as for all items
-- of before.
ALTER TABLE items ADD COLUMN unpaid_max INT UNSIGNED NOT NULL DEFAULT 0;

ALTER TABLE buyer_limits
    -- Holds of this buyer that expired unpaid.
    ADD COLUMN expired INT NOT NULL DEFAULT 0,
    -- The item's limit of such holds when the buyer last ordered; 0 after an expiry and for an accepted offer, so that
    -- only an order is compared.
    ADD COLUMN unpaid_max INT NOT NULL DEFAULT 0,
    ADD CONSTRAINT buyer_limits_unpaid CHECK (unpaid_max = 0 OR expired < unpaid_max);
