//! What extensions ask of the core.
