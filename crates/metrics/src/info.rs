//! INFO's text, taken apart.

/// Fields by section, in their order.
#[derive(Debug, Default)]
pub(crate) struct Info {
    sections: Vec<(String, Vec<(String, String)>)>,
}

impl Info {
    /// Reads what INFO answers. Lines that are neither a title nor a field are passed over.
    pub fn parse(text: &str) -> Info {
        let mut info = Info::default();
        for line in text.lines().map(str::trim_end) {
            if let Some(title) = line.strip_prefix("# ") {
                info.sections.push((title.to_ascii_lowercase(), Vec::new()));
            } else if let Some((name, value)) = line.split_once(':') {
                match info.sections.last_mut() {
                    Some((_, fields)) => fields.push((name.into(), value.into())),
                    None => info.sections.push((String::new(), vec![(name.into(), value.into())])),
                }
            }
        }
        info
    }

    /// Sections with their fields.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &[(String, String)])> {
        self.sections.iter().map(|(title, fields)| (title.as_str(), fields.as_slice()))
    }

    /// The fields of one section.
    pub fn section(&self, title: &str) -> &[(String, String)] {
        self.sections().find(|(name, _)| *name == title).map_or(&[], |(_, fields)| fields)
    }

    /// A field of any section.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.sections().find_map(|(_, fields)| field(fields, name))
    }
}

/// A field's value.
fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
}

/// `a=1,b=2`, as values of fields are written that have parts.
pub(crate) fn parts(value: &str) -> impl Iterator<Item = (&str, &str)> {
    value.split(',').filter_map(|part| part.split_once('='))
}

/// One of such parts, as a number.
pub(crate) fn part(value: &str, name: &str) -> Option<f64> {
    parts(value).find(|(part, _)| *part == name).and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_section() {
        let info = Info::parse(
            "a:0\r\n# Server\r\nhost:[::1]:6379\r\n\r\n# Keyspace\r\ndb0:keys=3,expires=1\r\nnothing",
        );
        assert_eq!(info.get("host"), Some("[::1]:6379"));
        assert_eq!(info.section("keyspace"), [("db0".to_string(), "keys=3,expires=1".to_string())]);
        assert_eq!(part("keys=3,expires=1", "expires"), Some(1.0));
        assert_eq!((info.get("none"), info.section("none").len(), part("a", "a")), (None, 0, None));
    }
}
