//! The types of problem of payments.

pub use web::problems::*;

web::problem_types! {
    INVALID_SIGNATURE: 403 "invalid_signature",
        "Sign id, time stamp and body with the secret, and send the message within five minutes.";
    PAYMENT_NOT_FOUND: 404 "payment_not_found", "Check the payment id; GET /api/admin/payments lists the payments.";
    PAYMENT_ACCEPTED: 409 "payment_accepted",
        "Only money that has to go back can be noted as refunded; this money has paid an order.";
    PAYMENTS_OFF: 409 "payments_off", "Set payment.provider to webhook, and start the service again.";
    INVALID_MESSAGE: 422 "invalid_message", "Send type, payment, order and amount_cents as /docs says.";
}
