//! The list of forms of real life, `tests/forms.md`, names tests that exist.

use crate::house::docs::{code_spans, read, root};

#[test]
fn each_form_names_a_test() {
    let list = read("tests/forms.md");
    let mut count = 0;
    for row in list.lines().filter(|line| line.starts_with("| P")) {
        let names = code_spans(row).into_iter().filter(|span| span.contains("::"));
        for name in names {
            assert!(is_test(name), "tests/forms.md: no test {name}");
            count += 1;
        }
        assert!(code_spans(row).iter().any(|span| span.contains("::")), "no test: {row}");
    }
    assert!(count > 0, "no form was found: the test reads the list wrongly");
}

/// Whether `module::module::name` is a function in the file of its module.
fn is_test(name: &str) -> bool {
    let Some((module, function)) = name.rsplit_once("::") else { return false };
    let module = root().join("tests").join(module.replace("::", "/"));
    let files = [module.with_extension("rs"), module.join("mod.rs")];
    let function = format!("fn {function}(");
    files
        .iter()
        .any(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(&function)))
}
