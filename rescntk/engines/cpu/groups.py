"""Groups of rows: their shapes, and copies of tables to their rows.

A *row* is a ring of pixel pairs: a right case and an offset δ. Rows lie side by side, pixel after
pixel: one flat array of d · rows numbers holds a quantity. A shift by one pixel is a shift by the
number of rows. Every loop runs over the whole array in full vectors, for signals of any length.

A ring repeats some of its pixels at both ends, the halo. Arrays are rounded up to whole vectors;
numbers after the last pixel are never read as results.
"""

from __future__ import annotations

from .arguments import Results, RowGroup, RowPlaces
from .compilation import compiled
from .vectors import LINE_BYTES, Numbers, load_line, repeat_like, store


@compiled
def resized(group: RowGroup, d: int, start: int) -> RowGroup:
    """Return the group with rows of `d` pixels, the first of which is at `start` in a ring."""
    memory, rows, width = group.memory, group.rows, group.memory.per_vector
    size = (d * rows + width - 1) // width * width
    return RowGroup(
        memory=memory, places=group.places, length=group.length, d=d, rows=rows, halo=group.halo,
        start=start, size=size, closed=group.closed, width=group.width,
    )  # fmt: skip


@compiled
def shortened(group: RowGroup, pixels: int) -> RowGroup:
    """Return the group without `pixels` pixels at both ends, if rows are open.

    A filter of this reach has all of its taps there.
    """
    if group.closed:
        pixels = 0
    return resized(group, group.d - 2 * pixels, group.start + pixels * group.rows)


@compiled
def skipped(group: RowGroup) -> int:
    """Return the pixels by which a row has become shorter at either end (`shortened`)."""
    return group.start // group.rows - group.halo


@compiled
def keeps_root_errors(numbers: Numbers) -> bool:
    """Return whether tables have what rounding took from √(q/2): in float32."""
    return numbers.per_line == LINE_BYTES // 4


@compiled
def repeat_over_rows(group: RowGroup, out: int, values: Numbers, table: int) -> None:
    """Copy the left table at `table`, (d,), to every row."""
    for j in range(group.d):
        for at in range(j * group.rows, (j + 1) * group.rows):
            group.memory[out + at] = values[table + j]


@compiled
def rows_of_group(rows: RowPlaces, first: int, number: int) -> RowPlaces:
    """Return `number` rows from the row `first` on."""
    last = first + number
    number = min(number, rows.number - first)
    return RowPlaces(number, rows.each[first:last], rows.line, rows.stride)


@compiled
def gather_rows(
    group: RowGroup, out: int, values: Numbers, table: int, rows: RowPlaces
) -> None:  # fmt: skip
    """Copy the right table at `table` to the rows of a group."""
    memory, line, number, row = group.memory, group.memory.per_line, group.rows, 0
    while row < number:
        place, start = rows.each[row], first_place(rows, row)
        end, step = row + 1, 1  # neighbours in the table, or equal rows, are copied together
        if end < number:
            step = first_place(rows, end) - start
        while (
            end < number
            and 0 <= step <= 1
            and rows.each[end].period == place.period
            and first_place(rows, end) == start + (end - row) * step
        ):
            end += 1
        # A last vector reaches beyond the table's line, and into rows that are copied later.
        whole = min(-(-(end - row) // line), (number - row) // line) * line
        line_number, pixel = place.offset, 0
        for j in range(group.d):
            source = line_number * rows.line + place.across + pixel
            source = table + place.begin + source * rows.stride
            target = out + j * number + row
            if step == 0:
                value = values[source]
                repeated = repeat_like(value, load_line(memory, out))
                for at in range(0, whole, line):
                    store(memory, target + at, repeated)
                for at in range(whole, end - row):
                    memory[target + at] = value
            else:
                for at in range(0, whole, line):
                    store(memory, target + at, load_line(values, source + at))
                for at in range(whole, end - row):
                    memory[target + at] = values[source + at]
            pixel += 1
            if pixel == group.width:
                line_number, pixel = line_number + 1, 0
                if line_number == place.period:
                    line_number = 0
        row = end


@compiled
def first_place(rows: RowPlaces, row: int) -> int:
    """Return the place of a row's first pixel, but for the stride: where rows lie side by side."""
    place = rows.each[row]
    return place.begin + place.offset * rows.line + place.across


@compiled
def gather_tables(
    group: RowGroup, out: int, step: int, values: Numbers, number: int, rows: RowPlaces,
    per_table: int, begin: int = 0,
) -> None:  # fmt: skip
    """Copy `number` tables, from `begin` on, to the rows of a group, `step` quantities apart."""
    for table in range(number):
        place = out + table * step * group.length
        gather_rows(group, place, values, begin + table * per_table, rows)


@compiled
def write_biases(
    group: RowGroup, rows: RowPlaces, case: int, results: Results, pixels: int
) -> None:  # fmt: skip
    """Write β_x β_z, (β_x − β_z)²/2, β_x and β_z of a left case with each row, to its pixels.

    With the case −1, each row has its own pair of signals.
    """
    memory, place = group.memory, group.places.biases
    for row in range(group.rows):
        column = rows.each[row].case
        left, right = results.left_bias[column if case < 0 else case], results.right_bias[column]
        difference = left - right
        for at in range(row, pixels * group.rows, group.rows):
            memory[place + at] = left * right
            memory[place + group.length + at] = 0.5 * difference * difference
            memory[place + 2 * group.length + at] = left
            memory[place + 3 * group.length + at] = right


@compiled
def fill_halo(group: RowGroup, ring: int, reach: int) -> None:
    """Repeat the pixels of a ring in `reach` pixels of its halo at both ends, if rows are closed.

    Open rows go on in their own pixels, and no halo of theirs counts.
    """
    if not group.closed:
        return
    memory = group.memory
    inside, halo = group.d * group.rows, reach * group.rows
    first, step = ring + group.start, memory.per_line
    low, high = first - halo, first + inside
    if halo % step == 0 and halo <= inside:
        for at in range(0, halo, step):
            store(memory, low + at, load_line(memory, low + inside + at))
            store(memory, high + at, load_line(memory, first + at))
    else:
        for at in range(halo - 1, -1, -1):
            memory[low + at] = memory[low + inside + at]
        for at in range(halo):
            memory[high + at] = memory[first + at]
