//! The table of the failures of the shop's own routes, beside those that all routes share.

pub use web::problems::*;

web::problem_types! {
    INVALID_CREDENTIALS: 401 "invalid_credentials", "Check the user name and the password.";
    PASSWORDS_OFF: 403 "passwords_off", "Sign in with the identity provider.";
    CHALLENGE_FAILED: 403 "challenge_failed", "Solve the challenge, and send the answer as altcha.";
    ACCOUNT_NOT_FOUND: 404 "account_not_found", "Sign in with an account that has a password of its own.";
    LIMIT_GROUP_NOT_FOUND: 404 "limit_group_not_found",
        "Check the group's id; GET /api/admin/limit-groups lists the groups.";
    PRODUCT_NOT_FOUND: 404 "product_not_found", "Check the product's id; GET /api/admin/products lists the products.";
    TOO_MANY_LIMIT_GROUPS: 409 "too_many_limit_groups", "Use a group that exists.";
    TOO_MANY_PRODUCTS: 409 "too_many_products", "Use a product that exists.";
    CURRENCY_FIXED: 409 "currency_fixed",
        "Create another item: the currency stays once the sale has begun or the item has orders.";
    ORDER_STATE_CONFLICT: 409 "order_state_conflict", "Read the order: its status does not allow this step.";
    HOLD_OVER: 409 "hold_over", "The hold of this order is over: pay while units are left, or place a new order.";
    HOLD_NOT_EXTENDABLE: 409 "hold_not_extendable",
        "Pay before the hold is over: an item of this order does not allow a longer hold.";
    ORDER_NOT_RETURNABLE: 409 "order_not_returnable",
        "Keep this order: one of its items cannot be returned, or not any more.";
    ORDERS_OPEN: 409 "orders_open",
        "Pay or cancel your open orders, or wait until they expire; then delete the account.";
    OPERATOR_ACCOUNT: 409 "operator_account",
        "Take the role from the account with `seckill operator revoke`; then delete the account.";
    USERNAME_TAKEN: 409 "username_taken", "Choose another user name.";
    PRECONDITION_FAILED: 412 "precondition_failed", "Read the item again, and send its ETag as If-Match.";
    LINES_OUT_OF_RANGE: 422 "lines_out_of_range", "Send as many lines as /docs allows, and at least one.";
    DUPLICATE_ITEM: 422 "duplicate_item", "Send one line for each item, with all units of it.";
    INVALID_USERNAME: 422 "invalid_username", "Send 1 to 32 letters, digits, '.', '_' and '-' of one script.";
    INVALID_PASSWORD: 422 "invalid_password", "Send at least 8 characters and at most 256 bytes.";
    COMMON_PASSWORD: 422 "common_password",
        "Choose another password: this one is among those that attackers try first, or is the user name.";
    INVALID_TEXT: 422 "invalid_text", "Send printable text within the limits that /docs names.";
    ARBITER_REQUIRED: 422 "arbiter_required", "Leave the arbiter on; only lab items may turn it off.";
    INVALID_VARIANT: 422 "invalid_variant",
        "Send product_id with at most 4 options, each with another name; names and values have 1 to 50 characters.";
    INVALID_CURRENCY: 422 "invalid_currency", "Send a currency of ISO 4217 by its three capital letters, such as EUR.";
    PRICE_OUT_OF_RANGE: 422 "price_out_of_range", "Send a price in the range that /docs names.";
    LIMIT_OUT_OF_RANGE: 422 "limit_out_of_range", "Send a limit in the range that /docs names.";
    HOLD_OUT_OF_RANGE: 422 "hold_out_of_range", "Send a hold time in the range that /docs names.";
    OFFER_OUT_OF_RANGE: 422 "offer_out_of_range", "Send an offer time in the range that /docs names.";
    STOCK_BELOW_SOLD: 422 "stock_below_sold",
        "Take out no more units than are left, and do not raise the stock above its limit.";
    TOO_MANY_ATTEMPTS: 429 "too_many_attempts", "Wait a minute before you sign in with this name again.";
}
