-- Orders with several lines.

-- Such an order is a row for each line, so that limits, movements, expiry and audits go by item as ever. The
-- ids of its lines differ in the last byte only: 00 for line 0, whose id is that of the order, 01 for line 1,
-- and so on. NULL: a single purchase. Status, key and times are the same in all lines.
ALTER TABLE orders ADD COLUMN line_count TINYINT UNSIGNED NULL;

-- Each line with the id of its order; a single purchase is its only line.
CREATE SQL SECURITY INVOKER VIEW order_lines AS
    SELECT IF(line_count IS NULL, id, CONCAT(LEFT(id, 34), '00')) AS order_id, item_id, quantity FROM orders;
