-- The tables of the keyspace `seckill_items`, in each shard, as `seckill migrate` makes them on one MySQL server. A test compares
-- them; docs/vitess.md.

CREATE TABLE `buyer_limits` (
  `item_id` bigint NOT NULL,
  `user_id` bigint NOT NULL,
  `bought` int NOT NULL,
  `allowed` int NOT NULL,
  `expired` int NOT NULL DEFAULT '0',
  `unpaid_max` int NOT NULL DEFAULT '0',
  PRIMARY KEY (`item_id`,`user_id`),
  CONSTRAINT `buyer_limits_positive` CHECK ((`bought` >= 0)),
  CONSTRAINT `buyer_limits_within` CHECK ((`bought` <= `allowed`))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `draw_entries` (
  `item_id` bigint NOT NULL,
  `user_id` bigint NOT NULL,
  `entry` char(32) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `party` char(32) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `entered_at` datetime(6) NOT NULL,
  `place` int unsigned DEFAULT NULL,
  PRIMARY KEY (`item_id`,`user_id`),
  UNIQUE KEY `draw_entries_entry` (`item_id`,`entry`),
  KEY `draw_entries_party` (`item_id`,`party`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `draws` (
  `item_id` bigint NOT NULL,
  `seed` char(64) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `rules` varchar(1000) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `commitment` char(64) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `beacon` varchar(16) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `round` bigint unsigned NOT NULL,
  `closes_at` datetime(6) NOT NULL,
  `closed_at` datetime(6) DEFAULT NULL,
  `listed_at` datetime(6) DEFAULT NULL,
  `entries` int unsigned DEFAULT NULL,
  `root` char(64) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `beacon_signature` varchar(200) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `beacon_value` char(64) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `placed` int unsigned NOT NULL DEFAULT '0',
  `drawn_at` datetime(6) DEFAULT NULL,
  `party_max` tinyint unsigned NOT NULL DEFAULT '1',
  `shop_key` char(64) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `head` varchar(500) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `paused_at` datetime(6) DEFAULT NULL,
  PRIMARY KEY (`item_id`),
  KEY `draws_due` (`drawn_at`,`closes_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `fences` (
  `item_id` bigint NOT NULL,
  `backend` varchar(32) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `fence` bigint unsigned NOT NULL,
  `accepted_writes` bigint unsigned NOT NULL DEFAULT '0',
  PRIMARY KEY (`item_id`,`backend`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `group_limits` (
  `group_id` bigint NOT NULL,
  `user_id` bigint NOT NULL,
  `bought` int NOT NULL,
  `allowed` int NOT NULL,
  PRIMARY KEY (`group_id`,`user_id`),
  CONSTRAINT `group_limits_positive` CHECK ((`bought` >= 0)),
  CONSTRAINT `group_limits_within` CHECK ((`bought` <= `allowed`))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `items` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `name` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL,
  `description` varchar(4000) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT '',
  `image_url` varchar(2048) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci DEFAULT NULL,
  `price_cents` bigint NOT NULL,
  `starts_at` datetime(6) NOT NULL,
  `ends_at` datetime(6) NOT NULL,
  `per_buyer_limit` int unsigned NOT NULL,
  `hold_seconds` int unsigned NOT NULL,
  `strategy` varchar(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `kind` varchar(8) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `arbiter` varchar(8) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `paused` tinyint(1) NOT NULL DEFAULT '0',
  `revision` bigint unsigned NOT NULL DEFAULT '1',
  `created_at` datetime(6) NOT NULL,
  `waiting_room` tinyint(1) NOT NULL DEFAULT '0',
  `offer_seconds` int unsigned NOT NULL DEFAULT '300',
  `limit_group_id` bigint DEFAULT NULL,
  `extend_seconds` int unsigned NOT NULL DEFAULT '120',
  `return_seconds` int unsigned NOT NULL DEFAULT '0',
  `currency` char(3) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `product_id` bigint DEFAULT NULL,
  `options` varchar(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci DEFAULT NULL,
  `unpaid_max` int unsigned NOT NULL DEFAULT '0',
  `first_stock` bigint DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `items_kind_ends_at` (`kind`,`ends_at`),
  KEY `items_product` (`product_id`),
  CONSTRAINT `items_chk_1` CHECK ((`price_cents` >= 0)),
  CONSTRAINT `items_chk_2` CHECK ((`starts_at` < `ends_at`)),
  CONSTRAINT `items_chk_3` CHECK (((`kind` = _ascii'lab') or (`arbiter` = _ascii'on')))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `limit_group_items` (
  `group_id` bigint NOT NULL,
  `item_id` bigint NOT NULL,
  PRIMARY KEY (`group_id`,`item_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `orders` (
  `id` char(36) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `item_id` bigint NOT NULL,
  `user_id` bigint NOT NULL,
  `quantity` int unsigned NOT NULL,
  `amount_cents` bigint NOT NULL,
  `status` varchar(10) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `strategy` varchar(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `fence` bigint unsigned DEFAULT NULL,
  `request_key` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `created_at` datetime(6) NOT NULL,
  `expires_at` datetime(6) NOT NULL,
  `paid_at` datetime(6) DEFAULT NULL,
  `fence_backend` varchar(32) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `fence_sequence` bigint unsigned DEFAULT NULL,
  `limit_group_id` bigint DEFAULT NULL,
  `buyer_bucket` int unsigned NOT NULL DEFAULT '0',
  `line_count` tinyint unsigned DEFAULT NULL,
  `extended_seconds` int unsigned DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `orders_item_request` (`item_id`,`user_id`,`request_key`),
  KEY `orders_item_status` (`item_id`,`status`,`expires_at`),
  KEY `orders_buyer` (`buyer_bucket`,`user_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `outbox` (
  `seq` bigint NOT NULL AUTO_INCREMENT,
  `id` char(36) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `aggregatetype` varchar(32) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `aggregateid` varchar(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `type` varchar(32) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `payload` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL,
  `created_at` datetime(6) NOT NULL,
  `item_id` bigint DEFAULT NULL,
  PRIMARY KEY (`seq`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `redis_buckets` (
  `item_id` bigint NOT NULL,
  `epoch` bigint unsigned NOT NULL,
  PRIMARY KEY (`item_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `redis_counters` (
  `item_id` bigint NOT NULL,
  `epoch` bigint unsigned NOT NULL,
  PRIMARY KEY (`item_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `redis_queues` (
  `item_id` bigint NOT NULL,
  `opened_at` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (`item_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `restocks` (
  `id` char(36) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `item_id` bigint NOT NULL,
  `delta` bigint NOT NULL,
  `user_id` bigint NOT NULL,
  `created_at` datetime(6) NOT NULL,
  `waiting` bigint NOT NULL DEFAULT '0',
  PRIMARY KEY (`id`),
  KEY `restocks_item` (`item_id`),
  KEY `restocks_waiting` (`waiting`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `running_requests` (
  `user_id` bigint NOT NULL,
  `item_id` bigint NOT NULL,
  `request_key` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `instance` char(16) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `expires_at` datetime(6) NOT NULL,
  PRIMARY KEY (`user_id`,`item_id`,`request_key`,`instance`),
  KEY `running_requests_expires_at` (`expires_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `stock` (
  `item_id` bigint NOT NULL,
  `total` bigint NOT NULL,
  `available` bigint NOT NULL,
  `version` bigint unsigned NOT NULL DEFAULT '0',
  `changed_at` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  `offered` bigint NOT NULL DEFAULT '0',
  PRIMARY KEY (`item_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `stock_movements` (
  `item_id` bigint NOT NULL,
  `order_id` char(36) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `reason` varchar(16) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `delta` bigint NOT NULL,
  `created_at` datetime(6) NOT NULL,
  PRIMARY KEY (`item_id`,`order_id`,`reason`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `unit_rows` (
  `item_id` bigint NOT NULL,
  `unit` int unsigned NOT NULL,
  `order_id` char(36) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  PRIMARY KEY (`item_id`,`unit`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE `waiting_list` (
  `place` bigint NOT NULL AUTO_INCREMENT,
  `item_id` bigint NOT NULL,
  `user_id` bigint NOT NULL,
  `status` varchar(10) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  `live` tinyint DEFAULT NULL,
  `joined_at` datetime(6) NOT NULL,
  `offered_at` datetime(6) DEFAULT NULL,
  `offer_expires_at` datetime(6) DEFAULT NULL,
  `closed_at` datetime(6) DEFAULT NULL,
  `order_id` char(36) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `party` char(32) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  `party_size` tinyint unsigned NOT NULL DEFAULT '1',
  PRIMARY KEY (`item_id`,`place`),
  UNIQUE KEY `waiting_list_live` (`item_id`,`user_id`,`live`),
  KEY `waiting_list_line` (`status`,`item_id`,`place`),
  KEY `waiting_list_offers` (`status`,`offer_expires_at`),
  KEY `waiting_list_place` (`place`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
