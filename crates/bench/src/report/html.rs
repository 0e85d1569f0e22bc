//! The page: one file without any outside resource, its plots drawn by a script of its own from the JSON
//! inside.

use super::Report;

const TEMPLATE: &str = include_str!("page.html");

/// The page of a report.
pub fn page(report: &Report) -> Result<String, String> {
    let mut value = serde_json::to_value(report).map_err(|e| e.to_string())?;
    // A script's numbers have 53 bits: all digits of the seed must be shown.
    value["seed"] = report.seed.to_string().into();
    let json = value.to_string();
    // Inside a script element only "</" and "<!--" could end it.
    let json = json.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    Ok(TEMPLATE.replace("/*REPORT*/null", &json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_names_no_outside_resource() {
        let mut report = super::super::tests::sample(50);
        report.command_line = vec!["x</script>".into()];
        report.seed = u64::MAX;
        let page = page(&report).expect("renders");
        assert!(page.contains("\"schema\":1") && !page.contains("x</script>"));
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org").count()
        );
        assert!(page.contains("\"seed\":\"18446744073709551615\""));
        assert!(!page.contains("https://") && !page.contains("src="));
    }
}
