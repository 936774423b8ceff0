/** A component in a file of its own, loaded when it is first wanted, or before.
 *
 * React.lazy would show its fallback for 300 ms at least; here the component is shown as soon as it is there. */

import { type ComponentType, type ReactNode, useEffect, useState } from "react";

type Loading<P> = ComponentType<P> & { preload: () => Promise<void> };

export function loadable<P extends object>(load: () => Promise<ComponentType<P>>, fallback: ReactNode): Loading<P> {
  let loaded: ComponentType<P> | null = null;
  const preload = async () => {
    loaded ??= await load();
  };
  function Loadable(props: P) {
    const [Shown, setShown] = useState<ComponentType<P> | null>(() => loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Shown !== null) return;
      let wanted = true;
      preload().then(() => wanted && setShown(() => loaded), () => wanted && setFailed(true));
      return () => {
        wanted = false;
      };
    }, [Shown]);
    if (failed) throw new Error("a part of this page could not be loaded"); // ErrorBoundary shows it
    return Shown === null ? fallback : <Shown {...props} />;
  }
  Loadable.preload = preload;
  return Loadable;
}
