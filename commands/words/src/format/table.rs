//! Tables: columns two blanks apart, or TABs for scripts.

/// One column.
#[derive(Clone, Debug)]
pub struct Column {
    /// The header.
    pub header: String,
    /// The narrowest it may be; longer cells overflow unless `measured`.
    pub width_min: usize,
    /// As wide as its widest cell.
    pub measured: bool,
    /// Right aligned, header too.
    pub right: bool,
}

impl Column {
    /// A left aligned column as wide as its widest cell.
    pub fn text(header: &str) -> Self {
        Column {
            header: header.to_owned(),
            width_min: header.len(),
            measured: true,
            right: false,
        }
    }
}

/// Formats `rows`, for scripts (`-H`: no header, TABs) or for people.
///
/// A left aligned last column is not padded.
pub fn table(columns: &[Column], rows: &[Vec<String>], script: bool) -> String {
    let mut text = String::new();
    if script {
        for row in rows {
            text.push_str(&row.join("\t"));
            text.push('\n');
        }
        return text;
    }
    let widths = widths(columns, rows);
    let headers: Vec<String> = columns.iter().map(|c| c.header.clone()).collect();
    for row in std::iter::once(&headers).chain(rows) {
        push_row(&mut text, columns, &widths, row);
    }
    text
}

/// How wide each column is.
pub fn widths(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |(index, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let measured = if column.measured { widest } else { 0 };
        column.width_min.max(measured)
    };
    columns.iter().enumerate().map(width).collect()
}

/// Appends one row and a newline.
pub fn push_row(text: &mut String, columns: &[Column], widths: &[usize], row: &[String]) {
    for (index, cell) in row.iter().enumerate() {
        if index > 0 {
            text.push_str("  ");
        }
        let (Some(column), Some(width)) = (columns.get(index), widths.get(index)) else {
            text.push_str(cell);
            continue;
        };
        let padding = width.saturating_sub(cell.chars().count());
        let last = index + 1 == columns.len();
        if column.right {
            text.extend(std::iter::repeat_n(' ', padding));
        }
        text.push_str(cell);
        if !column.right && !last {
            text.extend(std::iter::repeat_n(' ', padding));
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_the_last_is_not_padded() {
        let used = Column {
            header: "USED".to_owned(),
            width_min: 5,
            measured: false,
            right: true,
        };
        let columns = [Column::text("NAME"), used, Column::text("MOUNTPOINT")];
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["tank/fs@a2", "0B", "-"]),
            row(["tank", "1234567", "/tank"]),
        ];
        let expected = "NAME         USED  MOUNTPOINT\n\
                        tank/fs@a2     0B  -\n\
                        tank        1234567  /tank\n";
        assert_eq!(table(&columns, &rows, false), expected);
        assert_eq!(table(&columns, &rows[..1], true), "tank/fs@a2\t0B\t-\n");
    }
}
