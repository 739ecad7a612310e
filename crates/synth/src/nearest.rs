//! Which name was meant: the ones that differ in few letters.

/// How many letters must change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = before + usize::from(x.to_lowercase().ne(y.to_lowercase()));
            before = row[j + 1];
            row[j + 1] = cost.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The name that is most like this one, if one is.
pub fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody means a name of more letters.
    let name: String = name.chars().take(64).collect();
    let best = among.into_iter().map(|other| (distance(&name, other), other)).min()?;
    (best.0 <= 2 && best.0 < name.chars().count()).then_some(best.1)
}

/// The end of a sentence that says that there is no such name: the nearest one, or what there is.
pub fn suggestion<'a>(name: &str, among: impl IntoIterator<Item = &'a str> + Clone) -> String {
    /// More names help no reader.
    const MOST: usize = 12;
    if let Some(near) = nearest(name, among.clone()) {
        return format!(": is it `{near}`?");
    }
    let mut all: Vec<&str> = among.into_iter().take(MOST + 1).collect();
    if all.len() > MOST {
        all[MOST] = "...";
    }
    if all.is_empty() { String::new() } else { format!(": there are {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_or_all_are() {
        assert_eq!(suggestion("prise", ["qty", "price", "sym"]), ": is it `price`?");
        assert_eq!(suggestion("Qty", ["qty", "price"]), ": is it `qty`?");
        assert_eq!(suggestion("venue", ["qty", "price"]), ": there are qty, price");
        assert_eq!(suggestion("x", ["y"]), ": there are y", "a name of one letter is like any other");
        let many: Vec<String> = (0..100).map(|n| format!("column{n}")).collect();
        assert!(suggestion("venue", many.iter().map(String::as_str)).ends_with("column11, ..."));
    }
}
