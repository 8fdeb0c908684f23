-- Items and payments of builds without currencies get that of the shop, which only earlier builds read from its table.
UPDATE items SET currency = (SELECT code FROM shop_currency WHERE id = 1) WHERE currency IS NULL;
UPDATE payments SET currency = (SELECT code FROM shop_currency WHERE id = 1) WHERE currency IS NULL;
