CREATE TABLE stock (
    sku text PRIMARY KEY,
    available integer NOT NULL
);
CREATE TABLE orders (
    id bigserial PRIMARY KEY,
    customer text NOT NULL,
    sku text NOT NULL,
    quantity integer NOT NULL,
    idempotency_key text,
    placed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON orders (customer, id);
INSERT INTO stock VALUES ('apple', 1000000), ('pear', 1000000), ('plum', 1000000);
INSERT INTO orders (customer, sku, quantity) SELECT 'ada', 'apple', 1 FROM generate_series(1, 20);
