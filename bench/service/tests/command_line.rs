//! The command line of `service-bench`: what cannot be measured exits with 2.

use std::process::Command;

#[test]
fn a_load_without_a_time_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_service-bench"))
        .args(["--seconds", "0"])
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("a number from 0.2 to 120"), "{message}");
}
