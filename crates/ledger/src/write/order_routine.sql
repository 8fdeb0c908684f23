CREATE PROCEDURE ORDER_ROUTINE(
    -- The order; without a lock its fence is NULL.
    ORDER_PARAMETERS,
    -- The buyer's limit.
    p_limit INT,
    -- After how many holds that expired unpaid the buyer may not hold again; 0: no limit.
    p_unpaid_max INT,
    -- The limit of the item's group; NULL: the item is in no group.
    p_group_limit INT,
    -- What the gate has read; NULL: it does not compare.
    p_version BIGINT UNSIGNED,
    p_changed_at DATETIME(6),
    -- When the units are taken: 'first', 'last', or 'last' after the row was 'locked'.
    p_take VARCHAR(8) CHARACTER SET ascii,
    -- The event; NULL: none.
    p_event CHAR(36) CHARACTER SET ascii,
    p_event_type VARCHAR(32) CHARACTER SET ascii,
    p_payload LONGTEXT CHARACTER SET utf8mb4
)
MODIFIES SQL DATA
SQL SECURITY INVOKER
COMMENT 'Seckill: one order, from BEGIN to COMMIT'
BEGIN
    DECLARE v_sequence BIGINT UNSIGNED DEFAULT NULL;
    DECLARE v_left BIGINT DEFAULT NULL;
    DECLARE v_commits BOOLEAN DEFAULT FALSE;
    -- Nothing half: each error, our own signals too, undoes all. Whether a COMMIT that failed has happened is not
    -- certain on every engine, so the caller asks the ledger.
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        IF v_commits THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seckill: COMMIT failed';
        END IF;
        RESIGNAL;
    END;

    START TRANSACTION;
    IF p_token IS NOT NULL THEN
        UPDATE fences SET fence = p_token, accepted_writes = LAST_INSERT_ID(accepted_writes + 1)
         WHERE item_id = p_item AND backend = p_backend AND fence <= p_token;
        IF ROW_COUNT() <> 1 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seckill: not one row';
        END IF;
        SET v_sequence = LAST_INSERT_ID();
    END IF;
    IF p_take = 'first' THEN
        TAKE_STOCK
           AND (p_version IS NULL OR version = p_version)
           AND (p_changed_at IS NULL OR changed_at = p_changed_at);
        IF ROW_COUNT() <> 1 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seckill: not one row';
        END IF;
    END IF;
    INSERT_ORDER;
    COUNT_BUYER;
    IF p_group IS NOT NULL THEN
        COUNT_IN_GROUP;
    END IF;
    INSERT_MOVEMENT;
    IF p_event IS NOT NULL THEN
        INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, created_at, item_id)
        VALUES (p_event, 'orders', 'ledger', p_event_type, p_payload, UTC_TIMESTAMP(6), p_item);
    END IF;
    IF p_take = 'locked' THEN
        SELECT available INTO v_left FROM stock
         WHERE item_id = p_item FOR UPDATE;
        IF v_left IS NULL OR v_left < p_units THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seckill: not one row';
        END IF;
    END IF;
    IF p_take <> 'first' THEN
        TAKE_STOCK
           AND (p_version IS NULL OR version = p_version)
           AND (p_changed_at IS NULL OR changed_at = p_changed_at);
        IF ROW_COUNT() <> 1 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seckill: not one row';
        END IF;
    END IF;
    SET v_commits = TRUE;
    COMMIT;
END
