-- What operators did. Append-only: nothing in the program changes or deletes a row.

CREATE TABLE admin_actions (
    -- A UUIDv7: sorts by time, and is the cursor of the list.
    id CHAR(36) CHARACTER SET ascii NOT NULL,
    -- The operator.
    user_id BIGINT NOT NULL,
    -- item_created, item_edited, lab_run_started, lab_run_ended.
    action VARCHAR(32) CHARACTER SET ascii NOT NULL,
    -- What it was done to, if it is an item.
    item_id BIGINT NULL,
    -- What was asked for, as JSON.
    detail VARCHAR(6000) CHARACTER SET utf8mb4 NOT NULL,
    -- Where it was asked from; NULL for what the service did on the operator's behalf.
    address VARCHAR(45) CHARACTER SET ascii NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;
