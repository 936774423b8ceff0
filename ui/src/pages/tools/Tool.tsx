import { get } from "../../api/client";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { copy } from "../../design/Command";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { Words } from "../../design/Words";

type Told = components["schemas"]["ToolTold"];
type Field = components["schemas"]["FieldDocument"];

export function Tool({ kind }: { kind: string }) {
  const path = `/tools/${encodeURIComponent(kind)}`;
  const tool = useResource<Told>(path, (signal) => get(path, {}, signal));
  if (tool.error !== undefined) return <Failed error={tool.error} onRetry={tool.reload} />;
  if (tool.data === undefined) return <section className="card padded" aria-busy="true"><SkeletonRows rows={12} /></section>;
  const { doc, pure, free_input, fields, knobs, notes, example } = tool.data;
  return (
    <article className="card padded stack tool">
      <div className="row wrap">
        <h2 className="mono grow">{kind}</h2>
        {pure && <Badge tone="ok">no effect on the world</Badge>}
        {free_input && <Badge><code>input</code>: your own arguments</Badge>}
      </div>
      {doc.split(/\n\s*\n/).map((paragraph) => (
        <p key={paragraph}><Words text={paragraph} /></p>
      ))}
      {example !== "" && <Example text={example} />}
      <Fields title="Fields" fields={fields} />
      <Fields title="Knobs, under spec" fields={knobs} />
      {notes.length > 0 && (
        <section className="stack">
          <h3>Good to know</h3>
          <ul className="notes">
            {notes.map((note) => <li key={note}><Words text={note} /></li>)}
          </ul>
        </section>
      )}
    </article>
  );
}

function Example({ text }: { text: string }) {
  return (
    <section className="example">
      <pre tabIndex={0} aria-label="Example"><code>{text.trimEnd()}</code></pre>
      <Button small onClick={() => void copy(text)}>Copy the example</Button>
    </section>
  );
}

function Fields({ title, fields }: { title: string; fields: Field[] }) {
  if (fields.length === 0) return null;
  return (
    <section className="stack">
      <h3>{title}</h3>
      <div className="table-scroll" tabIndex={0} role="region" aria-label={title}>
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Value</th>
              <th scope="col">Meaning</th>
              <th scope="col">Default</th>
            </tr>
          </thead>
          <tbody>
            {fields.map((each) => (
              <tr key={each.name}>
                <th scope="row">
                  <code>{each.name}</code>
                  {each.required && <span className="needed"> needed</span>}
                </th>
                <td><Words text={each.value} /></td>
                <td>
                  <Words text={each.meaning} />
                  {each.example !== undefined && each.example !== null && (
                    <div className="faint">such as <code>{each.example}</code></div>
                  )}
                </td>
                <td>{each.default !== undefined && each.default !== null && <code>{JSON.stringify(each.default)}</code>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
