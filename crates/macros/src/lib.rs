//! `#[chappe::main]`: a `main` that is a light thread. The facade re-exports it.

#![deny(missing_docs)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Runs `main` as a light thread of the standard runtime, so that it and what it begins wait lightly, and a deadlock is reported.
///
/// When `main` returns, the process ends, whatever other light threads do.
///
/// ```ignore
/// #[chappe::main]
/// fn main() -> std::io::Result<()> {
///     let (tx, rx) = chappe::tube::bounded(0);
///     chappe::thread::spawn(move || tx.send("hello").unwrap());
///     println!("{}", rx.recv().unwrap());
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn main(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let is_word = |at: usize, word: &str| tokens.get(at).is_some_and(|t| t.to_string() == word);
    let main = (0..tokens.len()).find(|at| is_word(*at, "fn") && is_word(at + 1, "main"));
    let parameters = main.map(|at| at + 2).filter(|at| {
        matches!(tokens.get(*at), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis && g.stream().is_empty())
    });
    let is_async = (0..main.unwrap_or(0)).any(|at| is_word(at, "async"));
    let body = match tokens.last() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body.clone(),
        _ => return refuse("#[chappe::main] stands before `fn main() { ... }`"),
    };
    let Some(parameters) = parameters else {
        return refuse("#[chappe::main] stands before `fn main()`, without parameters");
    };
    if is_async {
        return refuse("with #[chappe::main] `main` is no `async fn`: it may wait as it is");
    }
    if !options.is_empty() {
        return refuse("#[chappe::main] takes no options");
    }
    let result: TokenStream = tokens[parameters + 1..tokens.len() - 1].iter().cloned().collect();
    let mut call: TokenStream = "::chappe::thread::run_main".parse().expect("a path");
    let mut closure: TokenStream = "move ||".parse().expect("a closure's head");
    closure.extend(result);
    closure.extend([TokenTree::Group(body)]);
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, closure))]);
    tokens.pop();
    tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, call)));
    tokens.into_iter().collect()
}

fn refuse(why: &str) -> TokenStream {
    format!("::core::compile_error!({why:?});").parse().expect("an item")
}
