//! The types of problem of the lab.

pub use web::problems::*;

web::problem_types! {
    RUN_NOT_FOUND: 404 "run_not_found", "Check the run id; GET /api/lab/runs lists the last runs.";
    LAB_BUSY: 409 "lab_busy", "Wait for the end of the other run, or end it with DELETE /api/lab/runs/{id}.", retry 5;
    LANES_OUT_OF_RANGE: 422 "lanes_out_of_range", "Choose other strategies, rounds or arbiters.";
}
