//! Rows of cells, flat in one piece. A row is found through a table, so that scrolling moves numbers and no cells.
//!
//! Each row has two stamps. What copies the grid goes by the number of the copy that it was last changed behind; what waits for a text, by the
//! position in the program's stream of the byte that last changed it. The second moves with the row when it scrolls.

use crate::cell::{Cell, Glyph};

/// The rows of one screen.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: usize,
    cells: Vec<Cell>,
    /// Where the cells of each row lie.
    order: Vec<u16>,
    /// Of each place: whether the line goes on in the next row.
    wraps: Vec<bool>,
    /// Of each place: when it was last changed.
    stamps: Vec<u64>,
    now: u64,
    /// Of each place: how many bytes the program had written when one of them last changed it.
    changed: Vec<u64>,
    position: u64,
}

impl Grid {
    /// An empty one. `now`: the number of the change that is under way.
    pub fn new(columns: usize, rows: usize, now: u64) -> Grid {
        Grid {
            columns,
            cells: vec![Cell::default(); columns * rows],
            order: (0..rows as u16).collect(),
            wraps: vec![false; rows],
            stamps: vec![now; rows],
            now,
            changed: vec![0; rows],
            position: 0,
        }
    }

    /// How many columns it has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.order.len()
    }

    /// From now on changes belong to this number.
    pub fn begin(&mut self, now: u64) {
        self.now = now;
    }

    /// From now on changes come from the byte of this position, counted from 1.
    pub fn at(&mut self, position: u64) {
        self.position = position;
    }

    /// The position of the byte that last changed a row.
    pub fn changed(&self, row: usize) -> u64 {
        self.changed[usize::from(self.order[row])]
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[Cell] {
        let from = usize::from(self.order[row]) * self.columns;
        &self.cells[from..from + self.columns]
    }

    /// A row, to change it.
    pub fn row_mut(&mut self, row: usize) -> &mut [Cell] {
        let place = usize::from(self.order[row]);
        self.stamps[place] = self.now;
        self.changed[place] = self.position;
        &mut self.cells[place * self.columns..(place + 1) * self.columns]
    }

    /// Whether the line of a row goes on in the next one.
    pub fn wraps(&self, row: usize) -> bool {
        self.wraps[usize::from(self.order[row])]
    }

    /// Says whether it does.
    pub fn set_wraps(&mut self, row: usize, wraps: bool) {
        self.wraps[usize::from(self.order[row])] = wraps;
    }

    /// Fills a whole row.
    pub fn fill(&mut self, row: usize, with: Cell) {
        self.row_mut(row).fill(with);
        self.set_wraps(row, false);
    }

    /// Moves the rows of a range up by so many; the last ones are filled.
    pub fn scroll_up(&mut self, from: usize, to: usize, by: usize, with: Cell) {
        let by = by.min(to - from);
        self.order[from..to].rotate_left(by);
        (to - by..to).for_each(|row| self.fill(row, with));
    }

    /// Moves the rows of a range down by so many; the first ones are filled.
    pub fn scroll_down(&mut self, from: usize, to: usize, by: usize, with: Cell) {
        let by = by.min(to - from);
        self.order[from..to].rotate_right(by);
        (from..from + by).for_each(|row| self.fill(row, with));
    }

    /// Cells of a row that are to be written over. The wide characters that are cut at either end are mended.
    pub fn over(&mut self, row: usize, from: usize, to: usize) -> &mut [Cell] {
        if [from, to].iter().any(|at| self.row(row).get(*at).is_some_and(|cell| cell.is_tail())) {
            self.cut(row, from);
            self.cut(row, to);
        }
        &mut self.row_mut(row)[from..to]
    }

    /// Sets cells of a row, and mends the wide characters that are cut at either end.
    pub fn fill_part(&mut self, row: usize, from: usize, to: usize, with: Cell) {
        self.over(row, from, to).fill(with);
    }

    /// Moves the cells of a row from a column on to the right, over the edge; the gap is filled.
    pub fn insert(&mut self, row: usize, at: usize, count: usize, with: Cell) {
        let columns = self.columns;
        let count = count.min(columns - at);
        self.cut(row, at);
        self.cut(row, columns - count);
        let cells = self.row_mut(row);
        cells.copy_within(at..columns - count, at + count);
        cells[at..at + count].fill(with);
    }

    /// Takes cells out of a row; what is behind them moves to the left.
    pub fn delete(&mut self, row: usize, at: usize, count: usize, with: Cell) {
        let columns = self.columns;
        let count = count.min(columns - at);
        self.cut(row, at);
        self.cut(row, at + count);
        let cells = self.row_mut(row);
        cells.copy_within(at + count..columns, at);
        cells[columns - count..].fill(with);
    }

    /// Where a wide character lies on both sides of a column: nothing is left of it.
    pub fn cut(&mut self, row: usize, column: usize) {
        if column > 0 && column < self.columns && self.row(row)[column].is_tail() {
            let cells = self.row_mut(row);
            for at in [column - 1, column] {
                cells[at] = Cell::blank(cells[at].style());
            }
        }
    }

    /// The last row in which anything stands, and one more; 0 if none has.
    pub fn used(&self) -> usize {
        let is_used = |row: &usize| self.row(*row).iter().any(|cell| *cell != Cell::blank(cell.style()));
        (0..self.rows()).rev().find(is_used).map_or(0, |row| row + 1)
    }

    /// Whether characters of a row stand from this column on.
    pub fn is_cut_at(&self, row: usize, column: usize) -> bool {
        let is_written = |cell: &Cell| cell.is_tail() || !matches!(cell.glyph(), Glyph::Nothing | Glyph::Char(' '));
        self.row(row).iter().skip(column).any(is_written)
    }

    /// Gives it another size. What does not fit at the right and at the bottom is gone.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        let mut new = Grid::new(columns, rows, self.now);
        new.at(self.position);
        for row in 0..rows.min(self.rows()) {
            let kept = columns.min(self.columns);
            self.cut(row, kept);
            new.row_mut(row)[..kept].copy_from_slice(&self.row(row)[..kept]);
            new.changed[row] = self.changed(row);
            new.set_wraps(row, self.wraps(row) && columns == self.columns);
        }
        *self = new;
    }

    /// Replaces every cell by one that looks the same.
    pub fn each(&mut self, mut change: impl FnMut(Cell) -> Cell) {
        self.cells.iter_mut().for_each(|cell| *cell = change(*cell));
        let now = self.now;
        self.stamps.fill(now);
    }

    /// All cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Of each place: its stamp and its cells.
    pub fn places(&self) -> impl Iterator<Item = (u64, &[Cell])> {
        self.stamps.iter().copied().zip(self.cells.chunks_exact(self.columns))
    }

    /// The table of rows, a word each: where it lies, and whether its line goes on.
    pub fn table(&self) -> impl Iterator<Item = u64> {
        self.order.iter().map(|place| u64::from(*place) | u64::from(self.wraps[usize::from(*place)]) << 16)
    }

    /// Of each row: the position of the byte that last changed it.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        (0..self.rows()).map(|row| self.changed(row))
    }

    /// One of a table, positions and cells as they were saved; None: they make no sense.
    pub fn of(
        columns: usize,
        (table, positions): (&[u64], &[u64]),
        cells: impl Iterator<Item = u64>,
        now: u64,
    ) -> Option<Grid> {
        let mut grid = Grid::new(columns, table.len(), now);
        let mut seen = vec![false; table.len()];
        for (row, word) in table.iter().enumerate() {
            let place = *word as u16;
            let is_new = seen.get_mut(usize::from(place)).map(|seen| !std::mem::replace(seen, true));
            if is_new != Some(true) {
                return None;
            }
            grid.order[row] = place;
            grid.changed[usize::from(place)] = positions.get(row).copied().unwrap_or(0);
            grid.wraps[usize::from(place)] = word >> 16 & 1 == 1;
        }
        for (cell, word) in grid.cells.iter_mut().zip(cells) {
            *cell = Cell::of_word(word);
        }
        // Copied by whoever goes on with it as if all of it were new.
        Some(grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &[&str]) -> Grid {
        let mut grid = Grid::new(text[0].chars().count(), text.len(), 1);
        for (row, line) in text.iter().enumerate() {
            for (at, c) in line.chars().enumerate() {
                grid.row_mut(row)[at] = Cell::narrow(c, 0);
            }
        }
        grid
    }

    fn text(grid: &Grid) -> Vec<String> {
        let shown = |cell: &Cell| char::from_u32(cell.0 as u32).filter(|c| *c != '\0').unwrap_or('.');
        (0..grid.rows()).map(|row| grid.row(row).iter().map(shown).collect()).collect()
    }

    #[test]
    fn regions_scroll_both_ways() {
        let mut it = grid(&["aa", "bb", "cc", "dd"]);
        it.scroll_up(1, 3, 1, Cell::default());
        assert_eq!(text(&it), ["aa", "cc", "..", "dd"]);
        it.scroll_down(0, 4, 3, Cell::default());
        assert_eq!(text(&it), ["..", "..", "..", "aa"]);
        it.scroll_up(0, 4, 100, Cell::default());
        assert_eq!(it.used(), 0);
    }

    #[test]
    fn a_row_that_scrolls_is_as_old_as_before() {
        let mut it = grid(&["aa", "bb", "cc"]);
        it.at(7);
        it.row_mut(1)[0] = Cell::narrow('x', 0);
        it.at(9);
        it.scroll_up(0, 3, 1, Cell::default());
        assert_eq!(it.positions().collect::<Vec<_>>(), [7, 0, 9]);
        it.each(|cell| cell.with_style(1));
        it.resize(1, 4);
        assert_eq!(it.positions().collect::<Vec<_>>(), [7, 0, 9, 0]);
    }

    #[test]
    fn cells_are_put_in_and_taken_out() {
        let mut it = grid(&["abcdef"]);
        it.insert(0, 1, 2, Cell::default());
        assert_eq!(text(&it), ["a..bcd"]);
        it.delete(0, 0, 3, Cell::default());
        assert_eq!(text(&it), ["bcd..."]);
        it.delete(0, 5, 100, Cell::default());
        assert_eq!(text(&it), ["bcd..."]);
    }

    #[test]
    fn half_a_wide_character_is_none() {
        let mut it = grid(&["abcd"]);
        it.row_mut(0)[1] = Cell::wide('中', 0);
        it.row_mut(0)[2] = Cell::tail(0);
        it.fill_part(0, 2, 3, Cell::narrow('x', 0));
        assert_eq!(text(&it), ["a.xd"]);
    }

    #[test]
    fn a_saved_table_that_names_a_place_twice_is_refused() {
        assert!(Grid::of(2, (&[0, 0], &[]), std::iter::empty(), 1).is_none());
        assert!(Grid::of(2, (&[0, 2], &[]), std::iter::empty(), 1).is_none());
        assert!(Grid::of(2, (&[1, 0], &[]), std::iter::empty(), 1).is_some());
    }
}
