//! `#[chappe::main]`: a `main` that is a light thread. `#[derive(chappe::Fields)]`: a struct as a schema. The facade re-exports both.

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

/// Writes `chappe::Fields` for a struct: its fields as the schema of a tube's records.
///
/// Fields are numbers, `bool`, and `[u8; N]` for text. One whose name begins with `_` is left out, as padding is.
///
/// ```ignore
/// #[derive(chappe::Fields, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Trade {
///     price: f64,
///     qty: i32,
///     sym: [u8; 4],
/// }
/// assert_eq!(Trade::schema().to_string(), "price: f64 @ 0, qty: i32 @ 8, sym: str[4] @ 12; size 16");
/// ```
#[proc_macro_derive(Fields)]
pub fn fields(item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let word = |token: Option<&TokenTree>, wanted: &str| token.is_some_and(|t| t.to_string() == wanted);
    let Some(at) = tokens.iter().position(|t| word(Some(t), "struct")) else {
        return refuse("#[derive(Fields)] stands before a struct: a record has all of its fields at once");
    };
    let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else {
        return refuse("#[derive(Fields)] stands before a struct with a name");
    };
    let body = match tokens.get(at + 2) {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body.stream(),
        Some(TokenTree::Punct(p)) if p.as_char() == '<' => {
            return refuse("#[derive(Fields)] takes no parameters of types: a schema is of one layout");
        }
        _ => return refuse("#[derive(Fields)] needs fields with names: `struct Trade { price: f64 }`"),
    };
    let mut fields = String::new();
    for (name_of, kind) in named(body) {
        // Named twice: for the place, and for the type.
        fields += &format!(
            "(const {{ ::chappe::synth::field_name({:?}) }}, ::core::mem::offset_of!({name}, {name_of}), \
             <{kind} as ::chappe::synth::AsField>::KIND),",
            name_of.trim_start_matches("r#")
        );
    }
    let written = format!(
        "impl ::chappe::Fields for {name} {{ fn schema() -> ::chappe::synth::Schema {{ \
         ::chappe::synth::Schema::declared(&[{fields}], ::core::mem::size_of::<{name}>()) }} }}"
    );
    written.parse().expect("an item")
}

/// The fields of a struct's body that are no padding: their names and types.
fn named(body: TokenStream) -> Vec<(String, TokenStream)> {
    let mut all = Vec::new();
    let mut tokens = body.into_iter().peekable();
    while tokens.peek().is_some() {
        // Attributes and visibility stand before the name, which is the last word before a single colon.
        let mut name = String::new();
        for token in tokens.by_ref() {
            match &token {
                TokenTree::Punct(p) if p.as_char() == ':' => break,
                TokenTree::Ident(word) => name = word.to_string(),
                _ => {}
            }
        }
        // The type ends at a comma that stands in no angle brackets.
        let (mut kind, mut depth) = (TokenStream::new(), 0);
        for token in tokens.by_ref() {
            match &token {
                TokenTree::Punct(p) if p.as_char() == ',' && depth == 0 => break,
                TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
                TokenTree::Punct(p) if p.as_char() == '>' => depth -= 1,
                _ => {}
            }
            kind.extend([token]);
        }
        if !name.starts_with('_') {
            all.push((name, kind));
        }
    }
    all
}
