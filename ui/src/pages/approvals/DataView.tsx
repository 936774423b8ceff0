/** Data of a decision for people: a table of names and values, or a table of rows. */

const ROWS_MAX = 200;

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

const isRows = (value: unknown): value is Record<string, unknown>[] => Array.isArray(value) && value.length > 0 && value.every(isRecord);

function Rows({ rows }: { rows: readonly Record<string, unknown>[] }) {
  const shown = rows.slice(0, ROWS_MAX);
  const columns = [...new Set(shown.flatMap((row) => Object.keys(row)))];
  return (
    <>
      <table className="table">
        <thead><tr>{columns.map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {shown.map((row, place) => (
            <tr key={place}>{columns.map((name) => <td key={name}><Value value={row[name]} nested /></td>)}</tr>
          ))}
        </tbody>
      </table>
      {rows.length > ROWS_MAX && <p className="soft padded">The first {ROWS_MAX} of {rows.length} rows</p>}
    </>
  );
}

function Value({ value, nested = false }: { value: unknown; nested?: boolean }) {
  if (value === null || value === undefined) return <span className="faint">–</span>;
  if (typeof value === "string") return <span className="data-text">{value}</span>;
  if (!nested && isRows(value)) return <Rows rows={value} />;
  if (typeof value === "object") return <pre>{JSON.stringify(value, null, 2)}</pre>;
  return <span className="numbers">{JSON.stringify(value)}</span>;
}

export function DataView({ data }: { data: unknown }) {
  const entries = isRecord(data) ? Object.entries(data) : [["", data] as const];
  return (
    <div className="card data-view" tabIndex={0} role="region" aria-label="Data">
      {isRows(data) ? (
        <Rows rows={data} />
      ) : (
        <table className="table">
          <tbody>
            {entries.map(([name, value]) => (
              <tr key={name}>{name !== "" && <th scope="row">{name}</th>}<td><Value value={value} /></td></tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
