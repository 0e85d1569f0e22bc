//! A request as the routes see it.

/// Databases that may be asked for; how many there are the server knows.
const DATABASES_MAX: usize = 1 << 20;

/// A request.
pub(crate) struct Asked {
    pub is_post: bool,
    pub path: String,
    /// The query string behind `?`, still encoded.
    pub query: String,
    /// The `Authorization` header.
    pub login: Option<String>,
    pub body: Vec<u8>,
    /// Whether this request may change something.
    pub may_write: bool,
    /// Whether the page offers commands that write.
    pub shows_writes: bool,
}

impl Asked {
    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query.as_bytes())
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.into())
    }

    /// The database in question.
    pub fn database(&self) -> usize {
        let number = self.parameter("db").and_then(|number| number.parse().ok()).unwrap_or(0);
        number.min(DATABASES_MAX)
    }
}
