//! The bodies of problems that say no more than their row of the table. Each is written once: of the
//! refusals of a rush only the id of the request varies.

use std::sync::LazyLock;

use super::ProblemType;

/// What follows the id of the request, which is the last member.
const END: &[u8] = b"\"}";

/// The body of each type up to the id of the request, in the order of the table.
static BEGINNINGS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let beginning = |kind: &ProblemType| {
        let mut body = kind.problem().written("");
        body.truncate(body.len().saturating_sub(END.len()));
        body
    };
    ProblemType::ALL.iter().map(beginning).collect()
});

/// The body of a problem of type `kind` for the request `request_id`, which holds no character that
/// JSON escapes; `None` never happens, since every type is in the table.
pub(super) fn body(kind: ProblemType, request_id: &str) -> Option<Vec<u8>> {
    let beginning = BEGINNINGS.get(kind as usize)?;
    let mut body = Vec::with_capacity(beginning.len() + request_id.len() + END.len());
    body.extend_from_slice(beginning);
    body.extend_from_slice(request_id.as_bytes());
    body.extend_from_slice(END);
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prebuilt_body_is_the_body_that_is_written() {
        for kind in ProblemType::ALL {
            let problem = kind.problem();
            assert_eq!(problem.row, Some(*kind));
            let id = "0123456789abcdef";
            assert_eq!(problem.body(id), problem.written(id), "{}", kind.code());
        }
    }

    #[test]
    fn a_problem_with_more_than_its_row_is_written() {
        let plain = ProblemType::SoldOut.problem();
        let others = [
            plain.clone().detail("Two units are left."),
            plain.clone().member("left", 2),
            plain.clone().retry_after(1),
            plain.clone().outcome_unknown(),
        ];
        for problem in others {
            assert_eq!(problem.row, None);
            assert_ne!(problem.body("id"), plain.body("id"));
        }
    }
}
