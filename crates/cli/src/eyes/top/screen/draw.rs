//! How `chappe top` looks. It draws what [`State`] says, in whatever room there is: 20 columns show less, and break nothing.

use super::state::{Detail, Held, Holding, State, Subject};
use crate::eyes::top::views::{self, View, cells};
use crate::look::plain;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap};

const HELP: &str = "\
up, down, PgUp, PgDn, Home, End   choose a row
Enter   look into it, then into a holder: all it has; Esc goes back
r       in a pool: take the chosen permit away (it asks first)
Tab     objects, processes that wait, pipes, light threads, terminals
s       sort by waiting (pipes: how full), longest wait, messages, name
/       only names that contain a text; Esc clears it
space   pause        + -   look less or more often
Ctrl-L  look now     q     end";

/// Colours are left out where the user asks for that (NO_COLOR).
fn style(colour: Color) -> Style {
    if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) { Style::new() } else { Style::new().fg(colour) }
}

/// The whole screen.
pub fn all(frame: &mut Frame, state: &mut State) {
    let area = frame.area();
    let graphs = if area.height >= 16 { 4 } else { 0 };
    let [head, graph, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(graphs),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(state.summary()).style(Style::new().add_modifier(Modifier::BOLD)), head);
    if graphs > 0 {
        totals(frame, graph, state);
    }
    match &state.detail {
        Some(detail) => into(frame, body, state, detail),
        None => table(frame, body, state),
    }
    frame.render_widget(Paragraph::new(footer(state)), foot);
    if state.help {
        let room = Rect::new(area.x, area.y + 1, area.width.min(76), area.height.saturating_sub(1).min(10));
        frame.render_widget(Clear, room);
        frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title("keys")), room);
    }
}

fn footer(state: &State) -> String {
    if let Some(index) = state.detail.as_ref().and_then(|d| d.question) {
        return format!("Take permit {index} away from its living holder? y: yes, any other key: no");
    }
    if state.typing {
        return format!("/{}_", plain(&state.filter));
    }
    if !state.message.is_empty() {
        return plain(&state.message);
    }
    let filter = if state.filter.is_empty() { String::new() } else { format!("  only /{}", plain(&state.filter)) };
    match state.detail {
        Some(ref d) if d.held.is_empty() => "Esc back".to_owned(),
        Some(_) => "Esc back  Enter its holder  r take the permit away".to_owned(),
        None => format!("q end  Enter look into  s sort  / filter  Tab {}  ? keys{filter}", state.view.next().what()),
    }
}

fn totals(frame: &mut Frame, area: Rect, state: &State) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let waiting: Vec<u64> = state.history.iter().map(|h| h.0).collect();
    let messages: Vec<u64> = state.history.iter().map(|h| h.1).collect();
    graph(frame, left, "waiting", &waiting, Color::Yellow);
    graph(frame, right, "messages a second", &messages, Color::Cyan);
}

/// The newest values that fit, the last one at the right edge.
fn graph(frame: &mut Frame, area: Rect, title: &str, values: &[u64], colour: Color) {
    let wide = usize::from(area.width.saturating_sub(2));
    let from = values.len().saturating_sub(wide);
    let most = values[from..].iter().max().copied().unwrap_or(0);
    let title = format!("{title}, at most {most}");
    let line = Sparkline::default().data(values[from..].iter().copied()).style(style(colour));
    frame.render_widget(line.block(Block::bordered().title(title)), area);
}

fn table(frame: &mut Frame, area: Rect, state: &State) {
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let view = state.view;
    match (view, &state.snapshot) {
        (View::Objects, Some(snapshot)) => {
            // Only what can be seen is made into text: there may be 10,000.
            let (first, rows) = window(state.rows.len(), state.chosen, area);
            let shown: Vec<[String; 6]> = state.rows[rows].iter().map(|i| cells(&snapshot.objects[*i])).collect();
            let wide = shown.iter().map(|r| r[0].chars().count()).max().unwrap_or(4).clamp(4, 40) as u16;
            let titles = view
                .titles()
                .iter()
                .enumerate()
                .map(|(i, t)| if i == state.sort.column() { format!("{t}*") } else { (*t).to_owned() });
            let widths = [wide, 9, 8, 8, 7].map(Constraint::Length).into_iter().chain([Constraint::Fill(1)]);
            let rows = shown.into_iter().map(|r| {
                let waits = !r[2].is_empty();
                Row::new(r).style(if waits { style(Color::Yellow) } else { Style::new() })
            });
            let mut at = TableState::default().with_selected((state.count() > 0).then(|| state.chosen - first));
            let table = Table::new(rows, widths).header(Row::new(titles).style(bold)).row_highlight_style(chosen);
            frame.render_stateful_widget(table, area, &mut at);
        }
        (View::Objects, None) => {}
        _ => {
            let (first, shown) = window(state.count(), state.chosen, area);
            let rows: Vec<Vec<String>> = match view {
                View::Processes => state.processes[shown].iter().map(views::process).collect(),
                View::Pipes => state.pipes[shown].iter().map(views::pipe).collect(),
                View::Light => state.light[shown].iter().map(views::light).collect(),
                View::Terminals => state.terminals[shown].iter().map(views::terminal).collect(),
                View::Objects => Vec::new(),
            };
            if rows.is_empty() {
                frame.render_widget(Paragraph::new(format!("no {}", view.what())), area);
                return;
            }
            let titles = view.titles();
            let wide = |at: usize| {
                let widest = rows.iter().map(|r| r[at].chars().count()).max().unwrap_or(0).max(titles[at].len());
                if at + 1 == titles.len() { Constraint::Fill(1) } else { Constraint::Length(widest.min(40) as u16) }
            };
            let widths: Vec<Constraint> = (0..titles.len()).map(wide).collect();
            let mut at = TableState::default().with_selected(Some(state.chosen - first));
            let head = Row::new(titles.iter().copied()).style(bold);
            let rows = rows.into_iter().map(Row::new);
            let table = Table::new(rows, widths).header(head).row_highlight_style(chosen);
            frame.render_stateful_widget(table, area, &mut at);
        }
    }
}

/// Which rows are seen: the one that is chosen is among them.
fn window(count: usize, chosen: usize, area: Rect) -> (usize, std::ops::Range<usize>) {
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let first = (chosen + 1).saturating_sub(room);
    (first, first..count.min(first + room))
}

fn into(frame: &mut Frame, area: Rect, state: &State, detail: &Detail) {
    let has_graph = !matches!(detail.subject, Subject::Light(_) | Subject::Terminal);
    let tall = if area.height >= 14 && has_graph { 5 } else { 0 };
    let [text, history] = Layout::vertical([Constraint::Min(1), Constraint::Length(tall)]).areas(area);
    let mut lines: Vec<Line> = Vec::new();
    if let Some(Holding { process: (pid, _), lines: all }) = &detail.holder {
        let all = if all.is_empty() { vec!["It holds nothing any more.".to_owned()] } else { all.clone() };
        let block = Block::bordered().title(format!("all that pid {pid} has"));
        let text = Text::from(all.into_iter().map(Line::raw).collect::<Vec<_>>());
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), area);
        return;
    }
    lines.push(Line::raw(detail.lines.first().cloned().unwrap_or_default()));
    for (at, Held { index, text: held, .. }) in detail.held.iter().enumerate() {
        let line = Line::raw(format!("permit {index}  {held}"));
        lines.push(if at == detail.chosen { line.style(Style::new().add_modifier(Modifier::REVERSED)) } else { line });
    }
    lines.extend(detail.lines.iter().skip(1).map(|l| Line::raw(l.clone())));
    let block = Block::bordered().title(plain(&detail.name));
    frame.render_widget(Paragraph::new(Text::from(lines)).wrap(Wrap { trim: false }).block(block), text);
    if tall > 0 {
        let (title, values) = state.history_of(detail);
        graph(frame, history, title, &values, Color::Green);
    }
}
