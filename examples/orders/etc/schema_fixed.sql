-- The rules that orders_fixed.py leaves to the database.
ALTER TABLE stock ADD CHECK (available >= 0);
ALTER TABLE orders ADD FOREIGN KEY (sku) REFERENCES stock;
ALTER TABLE orders ADD UNIQUE (idempotency_key);
