//! The types of problem of endpoints.

pub use web::problems::*;

web::problem_types! {
    ENDPOINT_NOT_FOUND: 404 "endpoint_not_found",
        "Check the endpoint id; GET /api/admin/endpoints lists the endpoints.";
    EVENTS_OFF: 409 "events_off", "Set events.enabled in the settings, and start the service again.";
    TOO_MANY_ENDPOINTS: 409 "too_many_endpoints", "Delete an endpoint that is not needed any more.";
    INVALID_TARGET: 422 "invalid_target",
        "Send the address of a webhook, which begins with https:// outside of events.private_networks.";
    INVALID_FILTER: 422 "invalid_filter", "Send event types, item ids and currencies that exist.";
    RANGE_OUT_OF_LOG: 422 "range_out_of_log", "Send positions that the log has; GET /api/admin/events reads it.";
}
