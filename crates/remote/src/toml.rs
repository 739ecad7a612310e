//! The part of TOML that remotes.toml needs: tables in brackets, and keys with texts in quotes.

use std::collections::BTreeMap;

/// Tables by their names, each with its keys.
pub type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// The tables of a text, each with its keys.
///
/// # Errors
/// The first line that is neither a table, a key with a text, a comment, nor empty.
pub fn read(text: &str) -> Result<Tables, String> {
    let mut tables = Tables::new();
    let mut table: Option<String> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("line {}: `{line}`: write [NAME], and below it KEY = \"TEXT\"", at + 1);
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let (name, rest) = (name.0.trim().trim_matches('"'), name.1.trim());
            if name.is_empty() || !(rest.is_empty() || rest.starts_with('#')) {
                return Err(wrong());
            }
            if tables.insert(name.to_owned(), BTreeMap::new()).is_some() {
                return Err(format!("line {}: [{name}] is there twice", at + 1));
            }
            table = Some(name.to_owned());
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(wrong)?;
        let value = value.trim().strip_prefix('"').and_then(quoted).ok_or_else(wrong)?;
        let Some(table) = table.as_ref().and_then(|name| tables.get_mut(name)) else { return Err(wrong()) };
        if table.insert(key.trim().to_owned(), value).is_some() {
            return Err(format!("line {}: `{}` is there twice", at + 1, key.trim()));
        }
    }
    Ok(tables)
}

/// What stands before the closing quote, behind which is nothing but a comment.
fn quoted(text: &str) -> Option<String> {
    let (mut value, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    let rest = chars.as_str().trim();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_keys_with_texts() {
        let text = "# engines\n[lab]\nurl = \"etcd://h1/lab\" # three\nuser = \"a\\\"b\"\n\n[\"other\"]\n";
        let read = read(text).unwrap();
        assert_eq!(read["lab"]["url"], "etcd://h1/lab");
        assert_eq!(read["lab"]["user"], "a\"b");
        assert!(read["other"].is_empty());
    }

    #[test]
    fn a_line_that_is_nothing_of_that_is_named() {
        for text in
            ["url = \"x\"", "[lab]\nurl = x", "[lab]\nurl", "[lab", "[]", "[lab]\nurl = \"x", "[lab]\nurl = \"x\" y"]
        {
            let said = read(text).unwrap_err();
            assert!(said.starts_with(&format!("line {}", text.lines().count())), "{said}");
        }
        assert!(read("[a]\n[a]").is_err() && read("[a]\nk = \"1\"\nk = \"2\"").is_err());
    }
}
