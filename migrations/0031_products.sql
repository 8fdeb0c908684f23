-- Products: several items, its variants, on one page of the shop.

-- Numbered by the home ledger; each ledger has those of its items. A product is not changed.
CREATE TABLE products (
    id BIGINT NOT NULL AUTO_INCREMENT,
    name VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL,
    description VARCHAR(4000) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
    image_url VARCHAR(500) CHARACTER SET utf8mb4 NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

-- The product of an item (NULL: none), and by what the item differs from the others of it: JSON, a list of pairs of
-- a name and a value.
ALTER TABLE items
    ADD COLUMN product_id BIGINT NULL,
    ADD COLUMN options VARCHAR(2000) CHARACTER SET utf8mb4 NULL;
CREATE INDEX items_product ON items (product_id);
