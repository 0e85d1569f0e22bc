//! The pages: files without any outside resource, their plots drawn by a script of their own from the JSON
//! inside. All share one style and one way to draw.

use super::Report;

const REPORT: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const PLOT: &str = include_str!("plot.js");

/// The page of a report.
pub fn page(report: &Report) -> Result<String, String> {
    let mut value = serde_json::to_value(report).map_err(|e| e.to_string())?;
    // A script's numbers have 53 bits: all digits of the seed must be shown.
    value["seed"] = report.seed.to_string().into();
    Ok(assembled(REPORT, &value))
}

/// A page: its style and drawing in the places that the template has for them, and the data that it shows.
pub fn assembled(template: &str, data: &serde_json::Value) -> String {
    // Inside a script element only "</" and "<!--" could end it.
    let json = data.to_string().replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let page = template.replace("/*STYLE*/", STYLE).replace("/*PLOT*/", PLOT);
    page.replace("/*REPORT*/null", &json)
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
