//! Where the claim of roles is, and what it says.

use serde_json::{Map, Value};

/// Claims whose text is a list with spaces between its values (RFC 6749, section 3.3; `scp` at Entra ID and Okta).
const SCOPES: [&str; 2] = ["scope", "scp"];

/// The way to a claim, such as `groups`, `realm_access.roles` or `resource_access."my.client".roles`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimPath {
    /// As it was written, for a claim whose whole name has dots: `https://shop.example/roles`.
    written: String,
    /// The names from the outside to the inside.
    names: Vec<String>,
}

/// What a token says of roles.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Values<'a> {
    /// What the claim says, perhaps nothing.
    Said(Vec<&'a str>),
    /// The provider has left the claim out, because it is too long.
    LeftOut,
}

impl ClaimPath {
    /// Reads a path. A name with a dot is in quotes, or has a backslash before each dot as in Keycloak's mappers.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let wrong = |why: &str| {
            format!(
                "identity.role_claim {text:?} {why}; write a name with a dot in quotes: resource_access.\"my.client\".roles"
            )
        };
        let mut names = vec![String::new()];
        let mut is_quoted = false;
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let name = names.last_mut().expect("never empty");
            match letter {
                '"' => is_quoted = !is_quoted,
                '\\' => name.push(letters.next().ok_or_else(|| wrong("ends with a backslash"))?),
                '.' if !is_quoted => names.push(String::new()),
                _ => name.push(letter),
            }
        }
        if is_quoted {
            return Err(wrong("has a quote without its end"));
        }
        if names.iter().any(String::is_empty) {
            return Err(wrong("has an empty name"));
        }
        Ok(Self { written: text.to_owned(), names })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The values of the claim: of a list its texts, of a scope its parts, of another text the whole text, since the
    /// name of one group can have spaces and commas. Empty texts are no values.
    pub(crate) fn values<'a>(&self, claims: &'a Map<String, Value>) -> Values<'a> {
        let mut value = claims.get(&self.written);
        if value.is_none() {
            let mut names = self.names.iter();
            value = names.next().and_then(|first| claims.get(first));
            value = names.fold(value, |value, name| value?.get(name));
        }
        let mut said: Vec<&str> = match value {
            None if self.is_left_out(claims) => return Values::LeftOut,
            Some(Value::String(text)) if self.is_scope() => text.split_whitespace().collect(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        said.retain(|text| !text.trim().is_empty());
        Values::Said(said)
    }

    fn is_scope(&self) -> bool {
        self.names.last().is_some_and(|name| SCOPES.contains(&name.as_str()))
    }

    /// Entra ID names claims that it has left out in `_claim_names` (OpenID Connect Core, section 5.6.2), and sets
    /// `hasgroups` in tokens that a browser gets.
    fn is_left_out(&self, claims: &Map<String, Value>) -> bool {
        let Some(first) = self.names.first() else { return false };
        let elsewhere = claims.get("_claim_names").and_then(|names| names.get(first));
        let has_groups = claims.get("hasgroups").is_some_and(|it| *it == true || *it == "true");
        elsewhere.is_some() || (first == "groups" && has_groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(path: &str, claims: &Value) -> Vec<String> {
        let path = ClaimPath::parse(path).expect("a path");
        match path.values(claims.as_object().expect("an object")) {
            Values::Said(values) => values.into_iter().map(str::to_owned).collect(),
            Values::LeftOut => vec!["left out".to_owned()],
        }
    }

    #[test]
    fn roles_are_found_by_the_path_of_their_claim() {
        let nested = json!({
            "realm_access": { "roles": ["sales", "admin"] },
            "resource_access": { "my.client": { "roles": ["seller"] }, "a\"b": { "roles": ["odd"] } },
        });
        assert_eq!(values("realm_access.roles", &nested), ["sales", "admin"]);
        assert!(values("realm_access", &nested).is_empty() && values("roles", &nested).is_empty());
        for path in [
            r#"resource_access."my.client".roles"#,
            r"resource_access.my\.client.roles",
            r#""resource_access"."my.client"."roles""#,
        ] {
            assert_eq!(values(path, &nested), ["seller"], "{path}");
        }
        assert_eq!(values(r#"resource_access.a\"b.roles"#, &nested), ["odd"]);
        assert!(values("resource_access.my.client.roles", &nested).is_empty());
        let flat = json!({ "https://shop.example/roles": ["sales"], "cognito:groups": ["a", 7, null], "n": 7 });
        assert_eq!(values("https://shop.example/roles", &flat), ["sales"]);
        assert_eq!(values("cognito:groups", &flat), ["a"]);
        assert!(values("n", &flat).is_empty());
        let empty = json!({ "roles": "", "groups": ["", " ", "a"] });
        assert!(values("roles", &empty).is_empty());
        assert_eq!(values("groups", &empty), ["a"]);
    }

    #[test]
    fn a_text_is_one_value_unless_it_is_a_scope() {
        let claims = json!({ "roles": "Sales admin, CN=x", "scp": "shop.read  shop.admin", "t": { "scope": "a b" } });
        assert_eq!(values("roles", &claims), ["Sales admin, CN=x"]);
        assert_eq!(values("scp", &claims), ["shop.read", "shop.admin"]);
        assert_eq!(values("t.scope", &claims), ["a", "b"]);
    }
}
