import { get } from "../../api/client";
import type { ToolDocument, ToolField } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { copyToClipboard } from "../../design/ShellCommand";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { TextWithCode } from "../../design/TextWithCode";

export function ToolDetails({ kind }: { kind: string }) {
  const path = `/tools/${encodeURIComponent(kind)}`;
  const tool = useResource<ToolDocument>(path, (signal) => get(path, {}, signal));
  if (tool.error !== undefined) return <ErrorNotice error={tool.error} onRetry={tool.reload} />;
  if (tool.data === undefined) return <section className="card padded" aria-busy="true"><SkeletonRows rows={12} /></section>;
  const { doc, pure, free_input, fields, knobs, output, notes, example } = tool.data;
  return (
    <article className="card padded stack tool">
      <div className="row wrap">
        <h2 className="mono grow">{kind}</h2>
        {pure && <Badge tone="ok">no side effects</Badge>}
        {free_input && <Badge><code>input</code>: any arguments</Badge>}
      </div>
      {doc.split(/\n\s*\n/).map((paragraph) => (
        <p key={paragraph}><TextWithCode text={paragraph} /></p>
      ))}
      {example !== "" && <Example text={example} />}
      <Fields title="Fields" fields={fields} />
      <Fields title="Options in spec" fields={knobs} />
      <Fields title="Its own part of the output" fields={output} />
      {notes.length > 0 && (
        <section className="stack">
          <h3>Notes</h3>
          <ul className="notes">
            {notes.map((note) => <li key={note}><TextWithCode text={note} /></li>)}
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
      <Button small onClick={() => void copyToClipboard(text)}>Copy example</Button>
    </section>
  );
}

function Fields({ title, fields }: { title: string; fields: ToolField[] }) {
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
                  {each.required && <span className="needed"> required</span>}
                </th>
                <td><TextWithCode text={each.value} /></td>
                <td>
                  <TextWithCode text={each.meaning} />
                  {each.example !== undefined && each.example !== null && (
                    <div className="faint">for example <code>{each.example}</code></div>
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
